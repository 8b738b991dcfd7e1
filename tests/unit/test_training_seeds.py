"""scripts/training_seeds.py: which runs stand together, and the two standard deviations."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from speculative_tts.evaluation.statistics import Measure
from speculative_tts.reporting.runs import Run

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "training_seeds.py"))
ALONE = {"system": "draft", "draft.path": "runs/draft-seed{}"}
LM = {"system": "speculative", "drafter.name": "lm", "draft.path": "runs/draft-seed{}"}
LAYER = {"system": "speculative", "drafter.name": "recurrent", "drafter.path": "runs/layer-seed{}"}
SSD, EXACT = {"rule.name": "tolerance", "rule.beta": 0.4}, {"rule.name": "exact"}


def run(config: dict[str, Any], seed: object) -> Run:
    given = {k: v.format(seed) if isinstance(v, str) else v for k, v in config.items()}
    return Run(Path("runs"), given, {}, {})


def test_runs_stand_by_the_seed_that_their_drafters_folder_ends_with() -> None:
    drafts = [run(of, seed) for of in (ALONE, LM | EXACT, LM | SSD) for seed in (10, 2)]
    layers = [run(LAYER | of, seed) for of in (EXACT, SSD) for seed in (0, 1)]
    shipped = {"draft.path": "tiny:draft_sentences"}
    ours = [run(of | shipped, 0) for of in (ALONE, LM | EXACT, LM | SSD)]
    others = [
        run(LAYER | EXACT, 3),
        run({"system": "target", "draft.path": "runs/draft-seed2"}, 0),
        run(LM | shipped | SSD | {"rule.beta": 0.2}, 0),
        run(LM | shipped | SSD | {"seed": 1}, 0),
    ]
    found = SCRIPT["seeds"]([*drafts, *layers, *ours, *others])
    assert {kind: list(of) for kind, of in found.items()} == {"lm": [0, 2, 10], "recurrent": [0, 1]}
    assert list(found["lm"][0].values()) == ours
    assert found["lm"][10]["ssd"] is drafts[4]
    assert found["lm"][2]["alone"] is drafts[1]
    assert found["recurrent"][1]["exact"] is layers[1]


def test_both_standard_deviations() -> None:
    """Three seeds at 1, 2, 3 differ by 1; a 95 % interval is 3.92 standard deviations wide."""
    measures = [Measure(float(value), value - 0.98, value + 0.98) for value in (1, 2, 3)]
    assert SCRIPT["over_seeds"](measures) == pytest.approx(1.0)
    assert SCRIPT["over_utterances"](measures) == pytest.approx(0.5)
