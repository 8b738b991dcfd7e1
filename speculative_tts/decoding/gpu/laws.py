"""Next-token distributions by kernels.

`decoding.sampling` is the reference: equal to 1e-6, NaN where they are.
"""

from functools import cache

import torch
from torch import Tensor

from speculative_tts.decoding.gpu.arguments import (
    Choice,
    FrameSlots,
    LogitRows,
    PartCandidates,
    Penalised,
    RecentWindow,
    Repetitions,
)
from speculative_tts.decoding.gpu.launch import launch
from speculative_tts.models.gpu.triton_runtime import power_of_2
from speculative_tts.native.sample import Places, Sampling

MOST = 64  # tokens that top-k may keep: more are ranked by torch
PART = 1024  # ids that a program looks for candidates in, at least
PARTS = 20  # programs that share a row, at most
TILE = 8192  # ids that a program reads at a time where it has a whole row
NOWHERE, EARLY, EVERYWHERE = range(3)  # where barred ids have no chance
LANES = 512  # ids of a tile for each warp


def law(sampling: Sampling, logits: Tensor, places: Places) -> Tensor | None:
    """Return distributions of logits, float32 [batch, new, vocab]; None without a kernel."""
    s, vocab = sampling, logits.shape[-1]
    if logits.dtype is not torch.float32 or not _has_kernel(s, vocab):
        return None
    given = logits, places.positions, places.minimum, places.barred
    rows = logit_rows(*given, s.temperature or 1.0)
    rows = rows._replace(logits=_prepared(s, rows, places))
    if s.temperature == 0:
        return _few(rows, places.stops, 1, Sampling(1.0, 1.0))
    if s.window:
        return _repetition_aware(rows, s, places.history)
    if s.top_k and vocab > 1:
        return _few(rows, places.stops, min(s.top_k, vocab), s)
    return _all(rows, places.stops, s)


def _has_kernel(s: Sampling, vocab: int) -> bool:
    """Return whether kernels compute what this sampler says of so many ids."""
    if s.temperature == 0:
        return True
    if s.window and not s.top_k:
        return False
    return bool(min(s.top_k, vocab) <= MOST)


def logit_rows(
    logits: Tensor, positions: Tensor, minimum: Tensor, barred: Tensor, temperature: float
) -> LogitRows:
    """Return logits [batch, new, vocab] at positions [batch, new] as kernels take them."""
    _, new, vocab = logits.shape
    given = logits.contiguous(), positions.flatten(), minimum, barred
    return LogitRows(*given, vocab, new, temperature)


def _prepared(s: Sampling, rows: LogitRows, places: Places) -> Tensor:
    """Apply what stands before all distributions: a penalty, and which ids a frame may hold."""
    logits, history, said, frames = rows.logits, places.history, None, None
    if s.penalty not in (0, 1):
        seen = torch.empty(logits.shape, dtype=torch.uint8, device=logits.device)
        said = Penalised(places.prompted, history, seen, history.stride(0), s.penalty)
    if s.slots:
        ends = tuple(s.kept.tolist())
        frames = FrameSlots(_ends(ends, logits.device), len(ends))
    if said is None and frames is None:
        return logits
    out = torch.empty_like(logits)
    tile, warps = _tile(rows.vocab)
    launch(
        "logits.prepared_kernel", (len(rows.positions),), rows, said, frames, out,
        IN_FRAME=bool(s.end_in_frame), TILE=tile, num_warps=warps,
    )  # fmt: skip
    return out


@cache
def _ends(ends: tuple[int, ...], device: torch.device) -> Tensor:
    """Return the first id after each range of a frame's positions, on a device."""
    return torch.tensor(ends, dtype=torch.int32, device=device)


def _all(rows: LogitRows, stops: Tensor, s: Sampling) -> Tensor:
    """Return distributions over all tokens, or over those that top-p leaves."""
    out, grid = torch.empty_like(rows.logits), (len(rows.positions),)
    tile, warps = _tile(rows.vocab)
    given = rows, stops if s.end_when_likeliest else None, out
    if s.top_p < 1:
        launch("laws.nucleus_kernel", grid, *given, s.top_p, TILE=tile, num_warps=warps)
    else:
        launch("laws.softmax_kernel", grid, *given, TILE=tile, num_warps=warps)
    return out


class Likeliest:
    """The likeliest tokens of each part of each row, and a distribution of zeros to write to."""

    def __init__(self, rows: LogitRows, top: int, bars: int):
        """Find them; bars: where barred ids have no chance, one of the constants above."""
        logits, vocab = rows.logits, rows.vocab
        part = min(max(PART, power_of_2(-(-vocab // PARTS))), power_of_2(vocab, 64))
        few, parts, number = power_of_2(top, 16), -(-vocab // part), len(rows.positions)
        values = torch.empty(number, parts * few, device=logits.device)
        ids = torch.empty_like(values, dtype=torch.int32)
        stats = torch.empty(number, 2 * parts, device=logits.device)
        self.out = torch.empty_like(logits)
        self.found = PartCandidates(values, ids, stats, parts * few, parts)
        self.choice = Choice(top, few, power_of_2(parts * few))
        self.warps = max(4, min(8, self.choice.wide // 256))  # of kernels that choose
        launch(
            "likeliest.candidates_kernel", (number, parts), rows, self.out, self.found,
            TOP=top, FEW=few, TILE=part, BARS=bars, num_warps=max(1, min(8, part // 256)),
        )  # fmt: skip


def _few(rows: LogitRows, stops: Tensor, top: int, s: Sampling) -> Tensor:
    """Return distributions over the `top` likeliest."""
    by = Likeliest(rows, top, EARLY)
    launch(
        "likeliest.few_kernel", (len(rows.positions),),
        by.found, stops if s.end_when_likeliest else None, by.out, rows.vocab,
        s.top_p if s.top_p < 1 else None, CHOICE=by.choice, num_warps=by.warps,
    )  # fmt: skip
    return by.out


def _repetition_aware(rows: LogitRows, s: Sampling, history: Tensor) -> Tensor:
    """Return distributions of `sampling.repetition_aware`."""
    again, top = bool(s.again_without), min(s.top_k, rows.vocab)
    by = Likeliest(rows, top, EARLY if again else NOWHERE)
    tile, _ = _tile(rows.vocab)
    parts, places = power_of_2(by.found.parts), power_of_2(s.window)
    launch(
        "repetition.repetition_aware_kernel", (len(rows.positions),), rows, by.found,
        Repetitions(history, history.stride(0), s.top_p, s.often), by.out, CHOICE=by.choice,
        WINDOW=RecentWindow(s.window, places, parts, min(tile, 4096), again), num_warps=8,
    )  # fmt: skip
    return by.out


def _tile(vocab: int) -> tuple[int, int]:
    """Return how many ids a program of a whole row reads at a time, and its warps."""
    tile = min(TILE, power_of_2(vocab, 64))
    return tile, max(1, min(16, tile // LANES))
