"""Next-token distributions by kernels.

`decoding.sampling` is the reference: equal to 1e-6, NaN where they are.
"""

from functools import cache

import torch
from torch import Tensor

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
    logits = _prepared(s, logits.contiguous(), places)
    given = (logits, places.positions.contiguous(), places.minimum, places.barred)
    if s.temperature == 0:
        return _few(given, places.stops, 1, Sampling(1.0, 1.0))
    if s.window:
        return _repetition_aware(given, s, places.history)
    if s.top_k and vocab > 1:
        return _few(given, places.stops, min(s.top_k, vocab), s)
    return _all(given, places.stops, s)


def _has_kernel(s: Sampling, vocab: int) -> bool:
    """Return whether kernels compute what this sampler says of so many ids."""
    if s.temperature == 0:
        return True
    if s.window and not s.top_k:
        return False
    return bool(min(s.top_k, vocab) <= MOST)


def _prepared(s: Sampling, logits: Tensor, places: Places) -> Tensor:
    """Apply what stands before all distributions: a penalty, and which ids a frame may hold."""
    penalised = s.penalty not in (0, 1)
    if not penalised and not s.slots:
        return logits
    batch, new, vocab = logits.shape
    out, history = torch.empty_like(logits), places.history
    seen = torch.empty(logits.shape if penalised else (1,), dtype=torch.uint8, device=logits.device)
    ends = tuple(s.kept.tolist()) if s.slots else (0,)
    tile, warps = _tile(vocab)
    launch(
        "logits.prepared_kernel", (batch * new,),
        logits, places.positions.contiguous(), history, places.prompted, _ends(ends, logits.device),
        seen, out, vocab, new, history.stride(0), len(ends), s.penalty or 1.0,
        PENALTY=penalised, FRAMES=bool(s.slots), IN_FRAME=bool(s.end_in_frame), TILE=tile,
        num_warps=warps,
    )  # fmt: skip
    return out


@cache
def _ends(ends: tuple[int, ...], device: torch.device) -> Tensor:
    """Return the first id after each range of a frame's positions, on a device."""
    return torch.tensor(ends, dtype=torch.int32, device=device)


def _all(given: tuple[Tensor, ...], stops: Tensor, s: Sampling) -> Tensor:
    """Return distributions over all tokens, or over those that top-p leaves."""
    logits, out = given[0], torch.empty_like(given[0])
    batch, new, vocab = logits.shape
    nucleus = s.top_p < 1
    tile, warps = _tile(vocab)
    launch(
        "laws.nucleus_kernel" if nucleus else "laws.softmax_kernel", (batch * new,),
        *given, stops, out, vocab, new, s.temperature, *((s.top_p,) if nucleus else ()),
        ENDS=bool(s.end_when_likeliest), TILE=tile, num_warps=warps,
    )  # fmt: skip
    return out


class Likeliest:
    """The likeliest tokens of each part of each row, and a distribution of zeros to write to."""

    def __init__(self, given: tuple[Tensor, ...], top: int, temperature: float, bars: int):
        """Find them; bars: where barred ids have no chance, one of the constants above."""
        logits = given[0]
        batch, new, vocab = logits.shape
        part = min(max(PART, power_of_2(-(-vocab // PARTS))), power_of_2(vocab, 64))
        self.out, self.top, self.few = torch.empty_like(logits), top, power_of_2(top, 16)
        self.parts = -(-vocab // part)
        self.width = self.parts * self.few
        self.values = torch.empty(batch * new, self.width, device=logits.device)
        self.ids = torch.empty_like(self.values, dtype=torch.int32)
        self.stats = torch.empty(batch * new, 2 * self.parts, device=logits.device)
        launch(
            "likeliest.candidates_kernel", (batch * new, self.parts),
            *given, self.out, self.values, self.ids, self.stats, vocab, new, temperature,
            TOP=top, FEW=self.few, TILE=part, BARS=bars, num_warps=max(1, min(8, part // 256)),
        )  # fmt: skip

    @property
    def sizes(self) -> dict[str, int]:
        """Constants of the kernels that choose among candidates."""
        wide = power_of_2(self.width)
        warps = max(4, min(8, wide // 256))
        return {"TOP": self.top, "FEW": self.few, "WIDE": wide, "num_warps": warps}


def _few(given: tuple[Tensor, ...], stops: Tensor, top: int, s: Sampling) -> Tensor:
    """Return distributions over the `top` likeliest."""
    found = Likeliest(given, top, s.temperature, EARLY)
    launch(
        "likeliest.few_kernel", (len(found.values),),
        found.values, found.ids, stops, found.out, given[0].shape[-1], found.width, s.top_p,
        NUCLEUS=s.top_p < 1, ENDS=bool(s.end_when_likeliest), **found.sizes,
    )  # fmt: skip
    return found.out


def _repetition_aware(given: tuple[Tensor, ...], s: Sampling, history: Tensor) -> Tensor:
    """Return distributions of `sampling.repetition_aware`."""
    _, new, vocab = given[0].shape
    again, top = bool(s.again_without), min(s.top_k, vocab)
    found = Likeliest(given, top, s.temperature, EARLY if again else NOWHERE)
    tile, _ = _tile(vocab)
    launch(
        "repetition.repetition_aware_kernel", (len(found.values),),
        *given, history, found.values, found.ids, found.stats, found.out, vocab, new, found.parts,
        history.stride(0), s.temperature, s.top_p, s.often,
        PARTS=power_of_2(found.parts), WINDOW=s.window, PLACES=power_of_2(s.window),
        TILE=min(tile, 4096), AGAIN=again, **found.sizes | {"num_warps": 8},
    )  # fmt: skip
    return found.out


def _tile(vocab: int) -> tuple[int, int]:
    """Return how many ids a program of a whole row reads at a time, and its warps."""
    tile = min(TILE, power_of_2(vocab, 64))
    return tile, max(1, min(16, tile // LANES))
