"""Instruments of a decoding loop: split clocks, distortion, and trials of thinning.

A timed run uses none of them (`Observer` does nothing): native rounds clock their parts themselves.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor

from speculative_tts.decoding.outcome import Round
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Numbers, Probs
from speculative_tts.decoding.sampling.sampler import Laws

# Positions that are measured at once: sums over groups cost little more for many than for one.
TOGETHER = 64
SECTIONS = ("draft", "verify", "accept")


class Observer:
    """Base of observers: it watches nothing, and its loop runs as if there were none."""

    def section(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Enter a part of the round, one of `SECTIONS`."""
        return nullcontext()

    def verified(self, target_probs: Laws, draft_probs: Laws, made: Round) -> None:
        """Take note of the distributions of one verification, and of its result."""


class Instruments(Observer):
    """Seconds of a loop's sections, in Python, and `sums` over verified positions by depth.

    Summed are the figures of the rule's `distortion`.
    """

    def __init__(self, rule: AcceptanceRule, lookahead: int, device: torch.device) -> None:
        self._distortion = rule.distortion
        self._device = device
        self.seconds = dict.fromkeys(SECTIONS, 0.0)
        self.positions = [0] * lookahead
        self.per_round: list[list[int]] = []  # drafted and accepted of a batch's first row
        names = ["tv", "kl"]
        if rule.draws_by_trials:
            names += ["expected_rejections", "expected_trials"]
        self._sums = {name: [0.0] * lookahead for name in names}
        self._waiting: list[tuple[Tensor, Probs, Probs, Numbers]] = []  # depths, q, p, weights

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Clock one section; it waits for the device, so it does not belong into a timed run."""
        synchronise(self._device)
        begin = time.perf_counter()
        yield
        synchronise(self._device)
        self.seconds[name] += time.perf_counter() - begin

    def verified(self, target_probs: Laws, draft_probs: Laws, made: Round) -> None:
        """Add what is summed over the positions that a verification reached."""
        if bool(made.active[0]):
            self.per_round.append([int(made.drafted[0]), int(made.accepted[0])])
        reached = made.reached(draft_probs.shape[1])
        if not bool(reached.any()):  # nor in a last round that has room for one token only
            return
        for depth, number in enumerate(reached.sum(0).tolist()):
            self.positions[depth] += number
        # Rounding of float32 is above the floor: a token that is never emitted would count as 1e-8.
        q, p = (_normalised(probs[reached]) for probs in (target_probs, draft_probs))
        weights = p.new_ones(len(p)) if made.weights is None else made.weights[reached].to(p)
        self._waiting.append((reached.nonzero()[:, 1], q, p, weights))
        if sum(len(depths) for depths, *_ in self._waiting) >= TOGETHER:
            self.sums()

    def sums(self) -> dict[str, list[float]]:
        """Measure the positions that wait; return each figure so far by depth in the round."""
        if not self._waiting:
            return self._sums
        depths, q, p, weights = map(torch.cat, zip(*self._waiting, strict=True))
        self._waiting.clear()
        for name, values in self._distortion(q, p, weights).items():
            for depth, value in zip(depths.tolist(), values.tolist(), strict=True):
                self._sums[name][depth] += value
        return self._sums


def _normalised(probs: Probs) -> Probs:
    exact = probs.double()
    return exact / exact.sum(-1, keepdim=True)


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
