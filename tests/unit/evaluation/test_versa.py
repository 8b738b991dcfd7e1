"""Lists for VERSA, and seed-tts-eval's normaliser."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_judges
import yaml
from scored_runs import record

from speculative_tts.commands import eval as command
from speculative_tts.evaluation.judge import Sample
from speculative_tts.evaluation.judges.seedtts import SeedTtsWhisper, normalise
from speculative_tts.evaluation.registry import RECOGNISERS
from speculative_tts.schema.evaluate import EvalConfig, Recogniser


def test_lists_for_versa_name_the_audio_of_every_run(
    make_run: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run("a", [record("u1"), record("u0")])
    out = tmp_path / "lists"
    assert command.run(EvalConfig(runs=str(folder), versa=str(out))) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert f"--pred {out / 'a/pred.scp'}" in line
    rows = (out / "a/pred.scp").read_text().splitlines()
    assert [row.split()[0] for row in rows] == ["u0", "u1"]
    assert all(Path(row.split(maxsplit=1)[1]).is_absolute() for row in rows)
    assert (out / "a/text").read_text().splitlines()[0].startswith("u0 ")
    metrics = yaml.safe_load((out / "metrics.yaml").read_text())
    assert {one["name"] for one in metrics} == {"whisper_wer", "speaker", "pseudo_mos"}
    assert not (folder / "summary.json").exists()


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
    (row,) = judge.score([Sample("a", "Fifty twenty-five", "a.wav")], {"a.wav": "50 twentyfive."})
    assert (row["substitutions"], row["words"]) == (1, 2)
    assert judge.options["normaliser"] == "seed-tts-eval, English"
    assert Recogniser.seedtts in RECOGNISERS
    preset = command.main.compose(["judges=seedtts"])
    assert (preset.judges.recogniser, preset.metrics) == (Recogniser.seedtts, ["wer", "similarity"])
