"""Laws in bfloat16 beside float32's: each family's goldens report it, and a fault is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from stubs import Markov, prompt

from speculative_tts.checks.precision import bfloat16, laws
from speculative_tts.checks.registry import CheckRow, load_check

GOLDEN = Path(__file__).parents[2] / "golden"


def precise(rows: Iterator[CheckRow]) -> list[CheckRow]:
    return [row for row in rows if "bfloat16" in row.case]


@pytest.mark.parametrize(("target", "cases"), [("uslm", 1), ("cosyvoice2", 3), ("llasa", 3)])
def test_every_family_reports_it(target: str, cases: int) -> None:
    found = precise(load_check(target)(GOLDEN / target))
    assert len(found) == cases
    assert all(row.worst > 0 and row.passed for row in found)


def test_laws_that_are_further_apart_fail() -> None:
    chain = Markov.random(6, 0)
    codes = torch.tensor([3, 2, 5])
    exact = laws(chain, prompt(0, 1), codes)
    assert exact.shape == (4, 6)
    assert bfloat16("same", [exact, exact]).worst == 0
    assert not bfloat16("other", [exact, laws(chain.near(1, 0.3), prompt(0, 1), codes)]).passed
