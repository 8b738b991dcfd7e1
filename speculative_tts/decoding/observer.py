"""Instruments of a decoding loop: split clocks and distortion.

A timed run uses none of them (`Observer` does nothing).
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor

from speculative_tts.decoding.acceptance import AcceptanceRule

# Emitted probabilities below it count as it: a relaxed rule may give none to what the target says.
KL_FLOOR = 1e-10


class Observer:
    """Watches nothing."""

    def section(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """A part of the round: draft, verify or accept."""
        return nullcontext()

    def verified(self, target_probs: Tensor, draft_probs: Tensor, reached: Tensor) -> None:
        """Laws of one verification, [batch, drafted, vocab]; positions reached [batch, drafted]."""


class Instruments(Observer):
    """Seconds of each section; total variation and KL(target || emitted) by depth in the round."""

    def __init__(self, rule: AcceptanceRule, lookahead: int, device: torch.device) -> None:
        self._rule = rule
        self._device = device
        self.seconds = {"draft": 0.0, "verify": 0.0, "accept": 0.0}
        self.tv = [0.0] * lookahead
        self.kl = [0.0] * lookahead
        self.positions = [0] * lookahead

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Clock one section; it waits for the device, so it does not belong into a timed run."""
        synchronise(self._device)
        begin = time.perf_counter()
        yield
        synchronise(self._device)
        self.seconds[name] += time.perf_counter() - begin

    def verified(self, target_probs: Tensor, draft_probs: Tensor, reached: Tensor) -> None:
        """Add the distortion of the positions that a verification reached."""
        emitted = self._rule.output_law(target_probs, draft_probs)
        tv = (emitted - target_probs).abs().sum(-1) / 2
        kl = torch.special.xlogy(target_probs, target_probs / emitted.clamp(min=KL_FLOOR)).sum(-1)
        for depth in range(reached.shape[1]):
            at = reached[:, depth]
            self.tv[depth] += float(tv[at, depth].sum())
            self.kl[depth] += float(kl[at, depth].sum())
            self.positions[depth] += int(at.sum())


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
