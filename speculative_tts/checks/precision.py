"""How far bfloat16 moves a model's laws from those in float32, along recorded codes."""

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

from speculative_tts.checks.registry import Row

PRECISIONS = (torch.float32, torch.bfloat16)
LIMIT = 0.02  # of a total variation; official shapes with random weights have 0.003 to 0.011


class Stepped(Protocol):
    """What is asked of a speech LM."""

    def cache(self, batch: int, capacity: int) -> Any:
        """Storage for `batch` rows."""
        ...

    def prefill(self, prompts: list[Tensor], cache: Any) -> Tensor:
        """float32 logits of the first token, [batch, vocab]."""
        ...

    def extend(self, ids: Tensor, cache: Any, start: Tensor) -> Tensor:
        """float32 logits behind each of ids [batch, new]."""
        ...


@torch.inference_mode()
def laws(model: Stepped, prompt: Tensor, codes: Tensor) -> Tensor:
    """Next-token laws after a prompt and after each of codes, int64 [n]: [n + 1, vocab]."""
    cache = model.cache(1, len(prompt) + len(codes))
    first = model.prefill([prompt], cache)
    rest = model.extend(codes[None], cache, torch.tensor([len(prompt)]))[0]
    return torch.cat([first, rest]).softmax(-1)


def bfloat16(case: str, found: Iterable[Tensor]) -> Row:
    """The mean total variation between the `laws` of both `PRECISIONS`."""
    exact, rounded = found
    apart = float((exact - rounded).abs().sum(-1).mean()) / 2
    return Row(f"{case}: laws in bfloat16, mean total variation", apart, LIMIT)
