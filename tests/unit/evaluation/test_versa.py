"""Lists for VERSA, and seed-tts-eval's normaliser."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_judges
import yaml
from scored_runs import record

from speculative_tts.commands import eval as command
from speculative_tts.evaluation.judges.seedtts import SeedTtsWhisper, normalise
from speculative_tts.evaluation.registry import RECOGNISERS
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.schema.evaluate import EvalConfig, Recogniser


def test_lists_for_versa_name_the_audio_of_every_run(
    make_run: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Voice prompts stand in its ground truth's place: `speaker` had heard the recordings."""
    rows = [record(key, reference_audio="truth.wav") for key in ("u1", "u0")]
    folder, out = make_run("a", rows), tmp_path / "the lists"
    assert command.run(EvalConfig(runs=str(folder), versa=str(out))) == 0
    options = shlex.split(capsys.readouterr().out)
    assert options[:2] == ["python", "versa/bin/scorer.py"]
    given = dict(zip(options[2::2], options[3::2], strict=True))
    lists = {name: read(Path(given[f"--{name}"])) for name in ("pred", "gt", "text")}
    assert all(list(found) == ["u0", "u1"] for found in lists.values())
    assert lists["gt"] == {row.id: row.prompt_audio for row in rows}
    assert all(Path(value).is_absolute() for value in lists["pred"].values())
    assert lists["text"] == {row.id: row.text for row in rows}
    assert {row.split()[0] for row in (out / "a/gt.scp").read_text().splitlines()} == {"u0", "u1"}
    assert given["--score_config"] == str(out / "metrics.yaml")
    metrics = yaml.safe_load((out / "metrics.yaml").read_text())
    assert {one["name"] for one in metrics} == {"whisper_wer", "speaker", "pseudo_mos"}
    assert not (folder / "summary.json").exists()


def test_versa_gets_no_prompts_where_one_is_missing(
    make_run: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stops at a shorter list, and leaves out utterances that are not in it."""
    folder = make_run("a", [record("u0"), record("u1", prompt_audio="")])
    assert command.run(EvalConfig(runs=str(folder), versa=str(tmp_path / "lists"))) == 0
    assert "--gt" not in capsys.readouterr().out


def read(path: Path) -> dict[str, str]:
    """As VERSA's scorer reads a list (audio_loader_setup, c398480)."""
    return dict(row.strip().split(maxsplit=1) for row in path.read_text().splitlines())


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
