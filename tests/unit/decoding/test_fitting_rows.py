"""How many rows a GPU's memory holds, without one."""

from typing import Any

import pytest
import torch
from stubs import request

from speculative_tts.decoding.batch import Size
from speculative_tts.decoding.loops.graphs import LAWS_A_ROW, Graphs, LoopSpec, rows_that_fit

ROW, FREE, WIDE, SLACK = 4_000, 1_000_000, 50, 3


@pytest.mark.parametrize("captures", [False, True])
def test_as_many_rows_fit_as_a_loop_of_one_row_and_its_laws_tell(
    monkeypatch: pytest.MonkeyPatch, captures: bool
) -> None:
    """A loop is as large as it will be: with graphs a bucket."""
    taken, made = iter([700, 700 + ROW]), list[Size]()
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: next(taken))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (FREE, 4 * FREE))
    looping: LoopSpec[Any] = LoopSpec(made.append, SLACK, "key")
    asked = [request(f"u{n}") for n in range(3)]
    found = Graphs((lambda step: step) if captures else None).fitting(looping, asked, WIDE)
    laws = LAWS_A_ROW * 4 * WIDE * (SLACK + 1)  # float32
    laws *= 2 if captures else 1  # the graph's, and those of the turn before
    assert found == rows_that_fit(FREE, ROW + laws)
    size = Size.of(asked[:1], SLACK)
    assert made == [size.bucket() if captures else size]
