import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import loud_judge
import numpy as np
import pytest
import soundfile
from loud_judge import LoudJudge, NumbJudge
from scored_runs import record, settings, summary_of
from synthetic_runs import config_of

from speculative_tts.commands import eval as command
from speculative_tts.evaluation import scoring
from speculative_tts.evaluation.summary import read_scores
from speculative_tts.provenance import command_line
from speculative_tts.schema.evaluate import EvalConfig

pytestmark = pytest.mark.usefixtures("loud")


def test_a_run_folder_is_scored(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(settings(run_folder)) == 0
    rows = read_scores(run_folder)
    assert [row.id for row in rows] == ["u0", "u1", "u2", "u3"]
    assert rows[0].audio == "audio/u0.wav"
    summary = summary_of(run_folder)
    assert summary["run"] == {"label": "ssd", "signature": "0123abcd", "complete": True}
    assert summary["argv"] == command_line()
    assert summary["judges"] == {"loud": {"id": "loud", "version": "1", "options": {}}}
    assert (summary["n"], summary["n_failed"]) == (4, 0)
    assert summary["metrics"]["dnsmos"]["n"] == 4
    assert "ssd" in capsys.readouterr().out


def test_a_killed_run_continues_and_ends_with_the_same_bytes(make_run: Callable[..., Path]) -> None:
    folder = make_run("a", [record(f"u{i}") for i in range(4)])
    command.run(settings(folder, cache=str(folder / "whole")))
    whole = [(folder / name).read_bytes() for name in ("scores.jsonl", "summary.json")]
    loud_judge.HEARD.clear()
    loud_judge.STOP_AFTER.append(2)
    with pytest.raises(KeyboardInterrupt):
        command.run(settings(folder, cache=str(folder / "cut")))
    loud_judge.STOP_AFTER.clear()
    (file,) = (folder / "cut").glob("loud-*.jsonl")
    with file.open("a") as torn:
        torn.write('{"sha256": "0123')
    command.run(settings(folder, cache=str(folder / "cut")))
    assert len(loud_judge.HEARD) == 4
    assert [(folder / name).read_bytes() for name in ("scores.jsonl", "summary.json")] == whole


def test_what_is_heard_does_not_wait_for_the_disk(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did 9 ms a file and judge; what a power failure takes is heard again."""
    waits: list[int] = []
    monkeypatch.setattr(os, "fsync", waits.append)
    command.run(settings(run_folder))
    assert len(loud_judge.HEARD) == 4
    assert len(waits) == 3  # scores, summary, and what was heard, once


def test_changed_audio_is_heard_again_and_nothing_else(run_folder: Path) -> None:
    command.run(settings(run_folder))
    soundfile.write(run_folder / "audio/u1.wav", np.full(16_000, 0.5), 16_000)
    command.run(settings(run_folder))
    assert len(loud_judge.HEARD) == 5


@pytest.mark.slow
def test_workers_give_the_same_scores(run_folder: Path, speech: Path) -> None:
    one = settings(run_folder, metrics=["wer", "dnsmos"], cache=str(run_folder / "one"))
    two = settings(run_folder, metrics=["wer", "dnsmos"], cache=str(run_folder / "two"), workers=2)
    command.run(one)
    first = (run_folder / "scores.jsonl").read_bytes()
    command.run(two)
    assert (run_folder / "scores.jsonl").read_bytes() == first


def test_missing_empty_and_broken_audio(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_folder / "audio/u0.wav").unlink()
    soundfile.write(run_folder / "audio/u1.wav", np.zeros(0), 16_000)
    (run_folder / "audio/u2.wav").write_bytes(b"not audio")
    assert command.run(settings(run_folder, metrics=["wer", "loud"])) == 0
    rows = {row.id: row for row in read_scores(run_folder)}
    assert "u0.wav not found" in str(rows["u0"].error)
    assert rows["u1"].flags == ["empty_audio", "empty_hypothesis"]
    assert rows["u1"]["deletions"] == 3
    assert rows["u1"]["dnsmos"] is None
    assert "not readable audio" in str(rows["u2"].error)
    assert rows["u2"]["words"] is None
    summary = summary_of(run_folder)
    assert (summary["n"], summary["n_failed"]) == (2, 2)
    assert set(summary["failed"]) == {"u0", "u2"}
    assert summary["flags"]["empty_audio"] == 1
    assert "ssd: 2 of 4 utterances not scored: u0 (audio file" in capsys.readouterr().err
    assert command.run(settings(run_folder, strict=True)) == 3


def test_stereo_at_another_rate_is_heard(run_folder: Path, speech: Path) -> None:
    wave, rate = soundfile.read(speech / "slt_kilo_seven_india.flac")
    stereo = np.repeat(np.stack([wave, wave], -1), 3, axis=0)
    soundfile.write(run_folder / "audio/u0.wav", stereo, 3 * rate)
    command.run(settings(run_folder, metrics=["wer"], limit=1))
    assert read_scores(run_folder)[0]["hypothesis"] == "kilo seven india"


def test_nothing_scored_is_exit_1(run_folder: Path) -> None:
    for path in (run_folder / "audio").iterdir():
        path.unlink()
    assert command.run(settings(run_folder)) == 1
    assert summary_of(run_folder)["metrics"]["lm_rtf"]["value"] is None


def test_missing_judge_is_a_line_and_a_skipped_column(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended with exit code 0, as if all that was asked for were there."""
    assert command.run(settings(run_folder, metrics=["loud", "deaf"])) == 1
    assert capsys.readouterr().err.count("loud needs ears; pip install ears\n") == 1
    assert summary_of(run_folder)["skipped"] == {"deaf": "loud needs ears; pip install ears"}


def test_a_missing_judge_takes_no_figures_away(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`judges=ssd` without its models left a scored run without words and voices."""
    with monkeypatch.context() as there:
        there.setitem(scoring.JUDGES, "deaf", lambda *_: LoudJudge())
        assert command.run(settings(run_folder, metrics=["deaf"])) == 0
    before = summary_of(run_folder)
    assert command.run(settings(run_folder, metrics=["loud", "deaf"])) == 1
    assert "nothing was scored: ssd would lose figures" in capsys.readouterr().err
    assert summary_of(run_folder) == before


def test_missing_judge_with_strict_is_exit_3(run_folder: Path) -> None:
    assert command.run(settings(run_folder, metrics=["loud", "deaf"], strict=True)) == 3
    assert not (run_folder / "scores.jsonl").exists()


@pytest.mark.parametrize("metric", ["wer", "similarity", "dnsmos"])
def test_real_judges_say_how_to_install_them(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    source = scoring.Source(Path(), [], {"label": "x"})
    line = scoring.plan(source, EvalConfig(metrics=[metric])).skipped[metric]
    assert "pip install" in line
    assert "\n" not in line


def test_torn_record_is_left_out_and_the_run_noted(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run_folder / "records.jsonl"
    file.write_text(file.read_text()[:-20])
    (run_folder / "DONE").unlink()
    assert command.run(settings(run_folder)) == 0
    assert len(read_scores(run_folder)) == 3
    assert "decoding has not finished, 3 utterances so far" in capsys.readouterr().err
    assert summary_of(run_folder)["run"]["complete"] is False


def test_silence_of_a_codec_that_keeps_codes_is_not_heard(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Word errors of 100 % and a naturalness of silence were figures like any others."""
    file = run_folder / "config.json"
    config = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps({**config, "codec": {"name": "codes", "path": "tiny:codes_spark"}}))
    assert command.run(settings(run_folder, metrics=["wer", "dnsmos"])) == 1
    assert "codec=codes makes no audio, its waves are silence" in capsys.readouterr().err
    assert summary_of(run_folder)["metrics"]["wer"]["value"] is None
    assert command.run(settings(run_folder, metrics=[])) == 0


def test_dnsmos_limit_spreads_over_the_list(run_folder: Path) -> None:
    command.run(settings(run_folder, metrics=["dnsmos"], dnsmos_limit=2))
    scored = [row["dnsmos"] is not None for row in read_scores(run_folder)]
    assert scored == [True, False, True, False]


def test_what_is_printed_has_the_floor_and_the_cut_offs(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run(settings(run_folder)) == 0
    (summary,) = run_folder.glob("summary.json")
    figures = json.loads(summary.read_text())
    figures["metrics"]["similarity"] |= {"value": 0.801}
    figures["metrics"]["similarity_floor"] |= {"value": 0.602}
    figures["metrics"]["stopped_at_max"] |= {"value": 0.25}
    text = command.table([figures])
    headings, cells = (re.split(r"  +", line) for line in text.splitlines())
    shown = dict(zip(headings, cells, strict=True))
    assert (shown["SIM"], shown["SIM to other speakers"]) == ("0.801", "0.602")
    assert shown["at max length %"] == "25.0"
    assert "UTMOS" not in shown  # nobody measured it


def test_baseline_comparison_is_printed_and_written(
    make_run: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    records = [record(f"u{i}") for i in range(10)]
    base = make_run("target-00000000", records)
    fast = make_run("ssd-11111111", [record(f"u{i}", lm_seconds=0.4 + i / 100) for i in range(10)])
    assert command.run(settings(base.parent, baseline=str(base))) == 0
    assert "ssd against target-00000000" in capsys.readouterr().out
    written = json.loads((fast / "comparison.json").read_text())
    assert written["metrics"]["speedup"]["difference"] == pytest.approx(250 / 4.45 / 25 - 2)
    assert written["metrics"]["speedup"]["p"] < 0.05
    assert not (base / "comparison.json").exists()


def test_a_judge_leaves_nothing_in_a_users_home(tmp_path: Path) -> None:
    """onnxruntime wrote an id of the machine and a data base into the cache folder."""
    hears = (
        "import numpy as np; from speculative_tts.evaluation.judges.dnsmos import Dnsmos;"
        "print(Dnsmos().load()(np.sin(np.arange(16_000.0), dtype=np.float32)))"
    )
    own = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    own |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", hears], env=own, capture_output=True, text=True, check=True
    )
    assert 1 <= float(done.stdout) <= 5
    assert list(tmp_path.iterdir()) == []


def test_a_paper_is_heard_as_it_is_shown(
    make_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSD's speed over lookahead shows no judge's figure; a run that is in no table is heard."""
    monkeypatch.setitem(scoring.JUDGES, "dnsmos", lambda *_: LoudJudge())
    configs = {"table": ("target", 3), "figure": ("speculative", 6), "other": ("speculative", 5)}
    folders = {
        name: make_run(name, [record("u0")], **config_of(system, "tolerance", 0.4, k, 0))
        for name, (system, k) in configs.items()
    }
    asked = settings(folders["table"].parent, metrics=["dnsmos"], paper="ssd")
    assert command.run(asked) == 0
    heard = {name: summary_of(folder)["metrics"] for name, folder in folders.items()}
    assert {name: one["dnsmos"]["n"] for name, one in heard.items()} == {
        "table": 1,
        "figure": 0,
        "other": 1,
    }
    assert heard["figure"]["acceptance_length"]["n"] == 1
    assert summary_of(folders["figure"])["limits"] == {"limit": None}


def test_a_judge_that_gives_no_number_is_told(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`NaN` went into scores.jsonl and the cache, which no other reader of JSON takes."""
    monkeypatch.setattr(scoring, "JUDGES", scoring.JUDGES | {"dnsmos": lambda *_: NumbJudge()})
    assert command.run(settings(run_folder, metrics=["dnsmos"])) == 0
    line = "dnsmos of 4 of 4 utterances could not be measured, the first u0: the judge gave no"
    assert line in capsys.readouterr().err
    assert [row["dnsmos"] for row in read_scores(run_folder)] == [None] * 4
    assert "NaN" not in (run_folder / "scores.jsonl").read_text()
