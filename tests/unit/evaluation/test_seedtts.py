"""Seed-tts-eval's normaliser and judge."""

from pathlib import Path

import pytest
import tiny_judges

from speculative_tts.commands import eval as command
from speculative_tts.evaluation.judges.seedtts import SeedTtsWhisper, normalise
from speculative_tts.evaluation.registry import RECOGNISERS
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.schema.evaluate import Recogniser


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("It's twenty-five, John!", "it's twentyfive john"),
        ("Fifty  pounds\u2026 \u201cno\u201d", "fifty pounds no"),
        ("50 pounds", "50 pounds"),
    ],
)
def test_seed_tts_evals_normaliser(text: str, plain: str) -> None:
    """Hyphens go without a space and numbers stay, as its figures were made."""
    assert normalise(text) == plain


def test_seed_tts_evals_judge(tmp_path: Path) -> None:
    judge = SeedTtsWhisper(tiny_judges.whisper(tmp_path / "w"))
    (row,) = judge.score([ScoreRow("a", "Fifty twenty-five", "a.wav")], {"a.wav": "50 twentyfive."})
    assert (row["substitutions"], row["words"]) == (1, 2)
    assert judge.options["normaliser"] == "seed-tts-eval, English"
    assert Recogniser.seedtts in RECOGNISERS
    preset = command.main.compose(["judges=seedtts"])
    assert (preset.judges.recogniser, preset.metrics) == (Recogniser.seedtts, ["wer", "similarity"])
