"""scripts/training_seeds.py: which runs stand together, and the two standard deviations."""

from pathlib import Path
from typing import Any

import pytest
import training_seeds

from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.statistics import Measure
from speculative_tts.reporting.runs import Run

ALONE = {"system": "draft", "draft.path": "runs/draft-seed{}"}
LM = {"system": "speculative", "drafter.name": "lm", "draft.path": "runs/draft-seed{}"}
LAYER = {
    "system": "speculative",
    "drafter.name": "recurrent",
    "draft.path": "tiny:draft_sentences",
    "drafter.path": "runs/recurrent-seed{}",
}
SSD, EXACT = {"rule.name": "tolerance", "rule.beta": 0.4}, {"rule.name": "exact"}
PCG = {"rule.name": "group", "rule.groups.mean_size": 37.5}


def run(config: dict[str, Any], seed: object) -> Run:
    given = {k: v.format(seed) if isinstance(v, str) else v for k, v in config.items()}
    return Run(Path("runs"), given, {}, {})


def test_runs_stand_by_the_seed_that_their_drafters_folder_ends_with() -> None:
    drafts = [run(of, seed) for of in (ALONE, LM | EXACT, LM | SSD, LM | PCG) for seed in (10, 2)]
    layers = [run(LAYER | of, seed) for of in (EXACT, SSD) for seed in (0, 1)]
    shipped = {"draft.path": "tiny:draft_sentences"}
    ours = [run(of | shipped, 0) for of in (ALONE, LM | EXACT, LM | SSD, LM | PCG)]
    others = [
        run(LAYER | EXACT, 3),
        run({"system": "target", "draft.path": "runs/draft-seed2"}, 0),
        run(LM | shipped | SSD | {"rule.beta": 0.2}, 0),
        run(LM | shipped | SSD | {"seed": 1}, 0),
    ]
    found = training_seeds.seeds([*drafts, *layers, *ours, *others])
    numbers = {kind: list(of) for kind, of in found.items() if of}
    assert numbers == {"draft": [0, 2, 10], "recurrent": [0, 1]}
    assert list(found["draft"][0]) == ["alone", "exact", "ssd_0.4", "pcg_37.5"]
    assert list(found["draft"][0].values()) == ours
    assert found["draft"][10]["ssd_0.4"] is drafts[4]
    assert found["draft"][2]["alone"] is drafts[1]
    assert found["recurrent"][1]["exact"] is layers[1]


def rows(wrong: int, rounds: int) -> list[ScoreRow]:
    words = {"words": 10, "substitutions": wrong, "deletions": 0, "insertions": 0}
    counts = {"rounds": rounds, "accepted": 20, "residuals": 0, "bonuses": 0}
    return [
        ScoreRow(str(one), "one", "one.wav", "slt", columns=words | counts) for one in range(20)
    ]


def test_groups_stand_beside_the_tolerance_that_is_as_long() -> None:
    """Of 20, 10 and 11 rounds the groups' 11 are nearest to the 10 of the larger tolerance."""
    of = {
        "exact": rows(0, 40),
        "ssd_0.1": rows(1, 20),
        "ssd_0.4": rows(4, 10),
        "pcg_140": rows(2, 11),
    }
    beside = training_seeds.equally_long(of)
    assert beside == {"pcg_140": "ssd_0.4"}
    found = {name: one.value for name, (one, _) in training_seeds.figures(of, beside).items()}
    assert found["pcg_140_cost"] == pytest.approx(20)
    assert found["pcg_140_gain"] == pytest.approx(-20)
    assert training_seeds.heading("pcg_140_gain", beside).sub == "minus SSD 0.4, points"


def test_the_mean_of_the_seeds_is_of_all_their_rows() -> None:
    found = {seed: {"exact": rows(seed, 10), "ssd_0.4": rows(2 * seed, 10)} for seed in (1, 3)}
    mean = training_seeds.figures(training_seeds.pooled(found), {})
    assert mean["exact_wer"][0].value == pytest.approx(20)
    assert mean["ssd_0.4_cost"][0].value == pytest.approx(20)


def test_both_standard_deviations() -> None:
    """Three seeds at 1, 2, 3 differ by 1; a 95 % interval is 3.92 standard deviations wide."""
    measures = [Measure(float(value), value - 0.98, value + 0.98) for value in (1, 2, 3)]
    assert training_seeds.over_seeds(measures) == pytest.approx(1.0)
    assert training_seeds.over_utterances(measures) == pytest.approx(0.5)
