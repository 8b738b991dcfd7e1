"""Measure how far bfloat16 moves a model's distributions from float32, along recorded codes."""

from collections.abc import Iterable

import torch
from torch import Tensor

from speculative_tts.checks.registry import CheckRow
from speculative_tts.models.speech_lm import Model

PRECISIONS = (torch.float32, torch.bfloat16)
LIMIT = 0.02  # of a total variation; official shapes with random weights have 0.003 to 0.011


@torch.inference_mode()
def laws(model: Model, prompt: Tensor, codes: Tensor) -> Tensor:
    """Return next-token distributions [n + 1, vocab] after a prompt and after each of n codes."""
    cache = model.cache(1, len(prompt) + len(codes))
    first = model.prefill([prompt], cache)
    rest = model.extend(codes[None], cache, torch.tensor([len(prompt)]))[0]
    return torch.cat([first, rest]).softmax(-1)


def bfloat16(case: str, found: Iterable[Tensor]) -> CheckRow:
    """Return the mean total variation between the `laws` of both `PRECISIONS`."""
    exact, rounded = found
    apart = float((exact - rounded).abs().sum(-1).mean()) / 2
    return CheckRow(f"{case}: laws in bfloat16, mean total variation", apart, LIMIT)
