"""Audio of other systems, given as a list: scored as a run is, its rows refused by name."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from scored_runs import settings, summary_of

from speculative_tts.commands import eval as command
from speculative_tts.evaluation.summary import read_scores
from speculative_tts.records import write_jsonl

pytestmark = pytest.mark.usefixtures("loud")


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("absent.wav", "absent.wav not found"),
        ("broken.wav", "broken.wav is not readable audio"),
        ("empty.wav", "empty.wav holds no sound"),
        ("silent.wav", "silent.wav holds no sound"),
        (None, "the list names no prompt_audio"),
    ],
)
def test_a_figure_that_cannot_be_measured_is_told(
    run_folder: Path, capsys: pytest.CaptureFixture[str], prompt: str | None, why: str
) -> None:
    """With strict, and every prompt missing, similarity was "-" and the exit code 0."""
    (run_folder / "broken.wav").write_bytes(b"not audio")
    soundfile.write(run_folder / "empty.wav", np.zeros(0), 16_000)
    soundfile.write(run_folder / "silent.wav", np.zeros(16_000), 16_000)
    audio = str(run_folder / "audio" / "u0.wav")
    row = {"id": "a", "text": "kilo", "audio": audio}
    row |= {"prompt_audio": str(run_folder / prompt)} if prompt else {}
    write_jsonl(run_folder / "list.jsonl", [row])
    asked = {"list": str(run_folder / "list.jsonl"), "metrics": ["similarity"]}
    assert command.run(settings(run_folder, **asked)) == 0
    err = capsys.readouterr().err
    assert "list: similarity of 1 of 1 utterances could not be measured, the first a: " in err
    assert why in err
    assert command.run(settings(run_folder, **asked, strict=True)) == 3
    (summary,) = run_folder.glob("list-scores/summary.json")
    assert list(json.loads(summary.read_text())["unmeasured"]) == ["similarity"]


@pytest.mark.slow
def test_another_systems_folder(
    tmp_path: Path, speech: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Open text, no record, one row without a prompt; the last line has no newline."""
    texts = {
        "237_134493_000015_000004": "I get wet to my knees when I go down to pick cherries.",
        "1089_134686_000032_000008": "A great saint, saint Francis Xavier!",
    }
    rows = [
        {"id": key, "text": text, "audio": str(speech / f"{key}.flac"), "speaker": key[:4]}
        for key, text in texts.items()
    ]
    rows[0]["prompt_audio"] = str(speech / "237_126133_000029_000000.flac")
    (tmp_path / "other.jsonl").write_text("\n".join(map(json.dumps, rows)))
    config = settings(tmp_path, list=str(tmp_path / "other.jsonl"), metrics=["wer", "similarity"])
    assert command.run(config) == 0
    out = tmp_path / "other-scores"
    scored = read_scores(out)
    assert [row["grammar"] for row in scored] == ["general", "general"]
    assert scored[0]["similarity"] is not None
    assert scored[0]["similarity"] > 0.7
    assert scored[1]["similarity"] is None
    assert scored[0]["audio_seconds"] == pytest.approx(3.05, abs=0.01)
    summary = summary_of(out)
    assert summary["judges"]["wer"]["id"] == "pocketsphinx-general"
    assert summary["metrics"]["lm_rtf"]["value"] is None
    assert "~WER, CER: pocketsphinx, general language model" in capsys.readouterr().out


def test_a_list_names_no_formula(tmp_path: Path) -> None:
    """The name of a list became the label of a system, which a spreadsheet computed."""
    write_jsonl(tmp_path / "=1+1.jsonl", [{"id": "a", "text": "b", "audio": "c"}])
    with pytest.raises(ValueError, match=r"system '=1\+1' begins with =, so that a spreadsheet"):
        command.run(settings(tmp_path, list=str(tmp_path / "=1+1.jsonl")))


def test_a_list_may_have_several_systems(tmp_path: Path, run_folder: Path) -> None:
    """Ids that repeat across systems were refused; each system had to be a list of its own."""
    audio = sorted((run_folder / "audio").glob("*.wav"))[:2]
    rows = [
        {"id": f"u{n}", "text": "one two", "audio": str(path), "system": system}
        for system in ("a", "b")
        for n, path in enumerate(audio)
    ]
    path = tmp_path / "list.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = str(tmp_path / "runs" / "theirs")
    assert command.run(settings(tmp_path, list=str(path), out=out, metrics=["wer"])) == 0
    for name in ("a", "b"):
        folder = Path(f"{out}-{name}")
        assert summary_of(folder)["run"]["label"] == name
        assert [row.id for row in read_scores(folder)] == ["u0", "u1"]
    path.write_text("".join(json.dumps(row) + "\n" for row in (*rows, rows[-1])))
    with pytest.raises(ValueError, match="id u1 of system b is there twice; give"):
        command.run(settings(tmp_path, list=str(path)))
    path.write_text(json.dumps(rows[0] | {"system": "../a"}) + "\n")
    with pytest.raises(ValueError, match=r"system '\.\./a' cannot name a folder of scores"):
        command.run(settings(tmp_path, list=str(path)))


def test_missing_files_are_five_and_a_count(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """20,000 missing files printed 20,000 lines."""
    rows = [{"id": f"u{n}", "text": "alpha", "audio": f"{n}.wav"} for n in range(40)]
    write_jsonl(run_folder / "list.jsonl", rows)
    config = settings(run_folder, list=str(run_folder / "list.jsonl"), metrics=["wer"])
    assert command.run(config) == 1
    error = capsys.readouterr().err
    assert "40 of 40 utterances not scored: u0 (audio file" in error
    assert "and 35 more" in error
    assert len([line for line in error.splitlines() if ".wav not found" in line]) == 1


def test_texts_without_words_are_left_out_and_told_in_one_line(
    run_folder: Path, speech: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts in other scripts, of emoji or of punctuation added insertions to the list's rate."""
    audio = str(speech / "slt_kilo_seven_india.flac")
    texts = {
        "good": "Kílo seven india",
        "cjk": "你好",
        "emoji": "\N{GRINNING FACE}",
        "dots": "...!",
    }
    rows = [{"id": key, "text": text, "audio": audio} for key, text in texts.items()]
    write_jsonl(run_folder / "list.jsonl", rows)
    out = run_folder / "scores"
    config = settings(
        run_folder, list=str(run_folder / "list.jsonl"), metrics=["wer"], out=str(out)
    )
    assert command.run(config) == 0
    printed = capsys.readouterr()
    line = "wer of 3 of 4 utterances could not be measured, the first cjk: its text has no words"
    assert printed.err.count(line) == 1
    assert "micro average" in printed.out
    assert "macro average" in printed.out
    summary = summary_of(out)
    assert summary["metrics"]["wer"] == {"value": 0.0, "low": None, "high": None, "n": 1}
    assert summary["metrics"]["wer_mean"]["n"] == 1
    flags = {row.id: row.flags for row in read_scores(out)}
    assert flags == {
        "good": [],
        "cjk": ["empty_text", "other_script"],
        "emoji": ["empty_text"],
        "dots": ["empty_text"],
    }
