"""Which columns of a decode record its score row has: those that the record marks, named once."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest
from scored_runs import record

from speculative_tts.evaluation.rows import row_of
from speculative_tts.records import SCORED, TIMED, DecodeRecord


@dataclass(frozen=True)
class Later(DecodeRecord):
    """A record with columns of a later time."""

    always: int | None = field(default=None, metadata=SCORED)
    clocked: float | None = field(default=None, metadata=TIMED)
    unmarked: int | None = None


def columns(**given: Any) -> dict[str, Any]:
    known = record("a")
    values = {entry.name: getattr(known, entry.name) for entry in fields(known)}
    later = Later(**values | given)
    return dict(row_of(Path("run"), later).columns)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"always": 3, "clocked": 0.5, "unmarked": 1}, {"always": 3, "clocked": 0.5}),
        ({"always": 3, "clocked": 0.5, "lm_seconds": None}, {"always": 3}),
        ({}, {"always": None}),
    ],
)
def test_a_marked_column_is_scored_without_being_named_again(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    """A new column had to be listed by hand beside the record."""
    found = columns(**given)
    names = ("always", "clocked", "unmarked")
    assert {name: found[name] for name in names if name in found} == expected


def test_what_every_row_has() -> None:
    """A column that is added needs no line here, one that metrics read cannot go."""
    marked = {entry.name for entry in fields(DecodeRecord) if entry.metadata == SCORED}
    read = {"tokens", "stop", "lm_seconds", "baseline_tokens", "baseline_seconds"}
    assert read <= marked <= columns().keys()
