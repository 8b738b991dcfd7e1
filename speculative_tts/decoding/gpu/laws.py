"""Next-token distributions and draws from them, by kernels.

`decoding.sampling` is the reference: equal to 1e-6, NaN where they are.
"""

import torch
from torch import Tensor

from speculative_tts.decoding.gpu.launch import launch
from speculative_tts.models.gpu.triton_runtime import power_of_2
from speculative_tts.native.sample import Places, Sampling

MOST = 64  # tokens that top-k may keep: more are ranked by torch
WIDEST = 8192  # ids of a row that one program holds at once, with integers to order them by
WIDE = 16384  # the same with their probabilities alone
PART = 4096  # ids that a program looks for candidates in
TILE = 1024  # ids that a program reads at a time


def law(sampling: Sampling, logits: Tensor, places: Places) -> Tensor | None:
    """Return distributions of logits, float32 [batch, new, vocab]; None without a kernel."""
    s, vocab = sampling, logits.shape[-1]
    if logits.dtype is not torch.float32:
        return None
    given = (logits.contiguous(), places.positions.contiguous(), places.minimum, places.barred)
    if s.temperature == 0:
        return _few(given, places.stops, 1, Sampling(1.0, 1.0))
    if s.window:
        fits = s.again_without and 0 < s.top_k <= MOST and vocab <= WIDEST
        return _repetition_aware(given, s, places.history) if fits else None
    if 0 < min(s.top_k, vocab) <= MOST:
        return _few(given, places.stops, min(s.top_k, vocab), s)
    if s.top_k == 0 and (s.top_p == 1 or vocab <= WIDE):
        return _all(given, places.stops, s)
    return None


def _all(given: tuple[Tensor, ...], stops: Tensor, s: Sampling) -> Tensor:
    """Return distributions over all tokens, or over those that top-p leaves."""
    logits, out = given[0], torch.empty_like(given[0])
    batch, new, vocab = logits.shape
    if s.top_p < 1:
        tile = power_of_2(vocab, 64)
        launch(
            "laws.nucleus_kernel", (batch * new,),
            *given, stops, out, vocab, new, s.temperature, s.top_p,
            ENDS=bool(s.end_when_likeliest), TILE=tile, num_warps=max(1, min(32, tile // 512)),
        )  # fmt: skip
        return out
    launch(
        "laws.softmax_kernel", (batch * new,),
        *given, stops, out, vocab, new, s.temperature,
        ENDS=bool(s.end_when_likeliest), TILE=min(TILE, power_of_2(vocab)), num_warps=8,
    )  # fmt: skip
    return out


def _few(given: tuple[Tensor, ...], stops: Tensor, top: int, s: Sampling) -> Tensor:
    """Find the `top` likeliest, first within parts of the vocabulary."""
    logits, out = given[0], torch.empty_like(given[0])
    batch, new, vocab = logits.shape
    few, part = power_of_2(top, 16), min(PART, power_of_2(vocab, 64))
    parts = -(-vocab // part)
    values = torch.empty(batch * new, parts * few, device=logits.device)
    ids = torch.empty_like(values, dtype=torch.int32)
    launch(
        "laws.candidates_kernel", (batch * new, parts),
        *given, out, values, ids, vocab, new, s.temperature,
        TOP=top, FEW=few, TILE=part, num_warps=8,
    )  # fmt: skip
    wide = power_of_2(parts * few)
    launch(
        "laws.few_kernel", (batch * new,),
        values, ids, stops, out, vocab, parts * few, s.top_p,
        TOP=top, FEW=few, WIDE=wide, NUCLEUS=s.top_p < 1, ENDS=bool(s.end_when_likeliest),
        num_warps=4,
    )  # fmt: skip
    return out


def _repetition_aware(given: tuple[Tensor, ...], s: Sampling, history: Tensor) -> Tensor:
    logits, out = given[0], torch.empty_like(given[0])
    batch, new, vocab = logits.shape
    top, tile = min(s.top_k, vocab), power_of_2(vocab, 64)
    few = power_of_2(top, 16)
    masses = torch.empty(batch * new, few, device=logits.device)
    launch(
        "laws.repetition_aware_kernel", (batch * new,),
        *given, history, out, masses, torch.empty_like(masses, dtype=torch.int32),
        vocab, new, history.stride(0), s.temperature, s.top_p, s.often,
        TOP=top, FEW=few, TILE=tile, WINDOW=s.window, PLACES=power_of_2(s.window),
        num_warps=max(1, min(16, tile // 512)),
    )  # fmt: skip
    return out
