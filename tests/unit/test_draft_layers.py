"""scripts/draft_layers.py: which runs stand in a draft's line, and which way a difference goes."""

from pathlib import Path
from typing import Any

import draft_layers
import pytest

from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.reporting.runs import Run

SPECULATIVE = {"system": "speculative", "rule.name": "tolerance"}


def run(draft: str, config: dict[str, Any]) -> Run:
    return Run(Path("runs"), {"draft.name": draft} | config, {}, {})


def test_runs_stand_by_draft_and_system() -> None:
    alone = {"system": "draft"}
    tolerant = run("paper", SPECULATIVE | {"rule.beta": 0.4})
    exact = run("ssd", SPECULATIVE | {"rule.name": "exact"})
    others = [
        run("paper", {"system": "target"}),
        run("paper", SPECULATIVE | {"rule.name": "group"}),
        run("ssd", alone | {"seed": 1}),
    ]
    found = draft_layers.drafts([run("paper", alone), tolerant, exact, *others])
    assert {name: list(of) for name, of in found.items()} == {
        "ssd": ["exact"],
        "paper": ["alone", "ssd_0.4"],
    }
    assert found["paper"]["ssd_0.4"] is tolerant


def row(utterance: int, wrong: int, rounds: int) -> ScoreRow:
    words = {"words": 8, "substitutions": wrong, "deletions": 0, "insertions": 0}
    counts = {"rounds": rounds, "accepted": 20, "residuals": 0, "bonuses": 0}
    return ScoreRow(str(utterance), "one", "one.wav", "slt", columns=words | counts)


def test_a_difference_is_the_first_draft_minus_the_other() -> None:
    """The first errs on one word of 8 more, and takes 10 rounds where the other takes 20."""
    first = {"alone": [row(one, 2, 0) for one in range(20)]}
    other = {"alone": [row(one, 1, 0) for one in range(20)]}
    first["exact"] = [row(one, 0, 10) for one in range(20)]
    other["exact"] = [row(one, 1, 20) for one in range(20)]
    found = draft_layers.differences(first, other)
    assert {name: measure.value for name, (measure, _) in found.items()} == pytest.approx(
        {"alone_wer": 12.5, "exact_length": 1.0, "exact_wer": -12.5}
    )


def test_layers_of_a_draft_are_those_of_its_own_description() -> None:
    shipped = run("paper", {"draft.path": "tiny:draft_fine"})
    said = draft_layers.layers(shipped)
    assert said == "layers 0, 12, 23, trained all, 600 steps after those of an earlier draft"
