"""Speculation where it pays: of two ways to decode, take the one that is faster at a batch's size.

What a round costs beside a step depends on the batch and the hardware, how many tokens it brings on
the draft. So both are tried on the first batch of each size, and their tokens a second compared.
"""

import time
from collections.abc import Hashable
from contextlib import closing
from itertools import islice
from typing import Any

from speculative_tts.decoding.batch import Request, Size
from speculative_tts.decoding.loops.graphs import Graphs, Loop, LoopSpec
from speculative_tts.decoding.loops.observer import synchronise

WARM, TRIED = 2, 16  # steps before the clock starts (capture is one), and steps that it times


class Paying:
    """Chooses between two ways to decode, once for each size of batch."""

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs
        self._chosen: dict[Hashable, bool] = {}

    def choose(
        self, speculative: LoopSpec[Any], alone: LoopSpec[Any], requests: list[Request]
    ) -> LoopSpec[Any]:
        """Return `speculative`, or `alone` where that emits more tokens a second."""
        size = Size.of(requests, speculative.slack).bucket()
        key = speculative.key, alone.key, size
        if key not in self._chosen:
            speeds = [speed(self._graphs, spec, requests) for spec in (speculative, alone)]
            self._chosen[key] = speeds[0] >= speeds[1]
        return speculative if self._chosen[key] else alone


def speed(graphs: Graphs, spec: LoopSpec[Any], requests: list[Request]) -> float:
    """Return tokens a second of a batch, over its first steps and without its prefill."""
    with closing(graphs.states(spec, requests)) as states:  # which gives the loop back
        loop: Loop = next(states)
        for _ in islice(states, WARM):
            pass
        begun, clock = _emitted(loop)
        for _ in islice(states, TRIED):
            pass
        ended, now = _emitted(loop)
    return (ended - begun) / (now - clock)


def _emitted(loop: Loop) -> tuple[int, float]:
    """Return the tokens so far, and the time once the device has emitted them."""
    count = int(loop.rows.count.sum())
    synchronise(loop.rows.count.device)
    return count, time.perf_counter()
