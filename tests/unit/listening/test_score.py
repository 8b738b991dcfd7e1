"""From answers to figures: 30 raters with known opinions, through the files that they send."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from listening_runs import make_runs, make_test, rated

from speculative_tts.commands.listen import main
from speculative_tts.evaluation.ratings import MeanRating, write_rating
from speculative_tts.listening.key import ComparedSystem, Key

NAMES = ["target-s0-22222222", "speculative-tolerance-b0.4-k3-s0-33333333"]
LOW, HIGH = 2.85, 3.15  # the truth of the two: 0.3 apart


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs(tmp_path_factory.mktemp("listening") / "runs", NAMES, n=20)


def answer(folder: Path, sheets: list[Any]) -> None:
    (folder / "answers").mkdir(exist_ok=True)
    for i, one in enumerate(sheets):
        (folder / "answers" / f"{i}.json").write_text(json.dumps(one))


def scored(folder: Path, *settings: str) -> dict[str, Any]:
    assert main(["score", f"folder={folder}", "draws=1000", *settings]) == 0
    return dict(json.loads((folder / "scores.json").read_text()))


@pytest.fixture(scope="module")
def key(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Key:
    folder = tmp_path_factory.mktemp("test")
    return make_test(folder, runs, "raters=30", "samples=10", "baseline=target")


def with_key(key: Key, folder: Path) -> Path:
    key.write(folder)
    return folder


def test_thirty_raters_find_what_is_there(
    key: Key, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = with_key(key, tmp_path)
    truth = {NAMES[0]: LOW, NAMES[1]: HIGH}
    answer(folder, rated(key, truth, 0, careless=(4, 17)))
    found = scored(folder)
    assert found["raters"] == 28
    assert found["left_out"]["failed"] == ["rater 4", "rater 17"]
    pair = found["pairs"][0]
    assert pair["baseline"] == NAMES[0]
    difference = pair["difference"]
    assert difference["n"] == 280
    assert difference["low"] < 0.3 < difference["high"]
    assert difference["low"] > 0
    assert pair["p_holm"] < 0.01
    for system, mean in found["means"].items():
        assert mean["low"] < truth[system] < mean["high"]
        assert mean["n"] == 280
        assert mean["half"] == pytest.approx(1.97 * mean["sd"] / 280**0.5, rel=0.01)
    out = capsys.readouterr().out
    assert "left out, failed attention checks: 2 (rater 4, rater 17)" in out
    assert "95 %: raters and utterances drawn" in out
    assert "raters find 0.2 in 80 % of tests" in out


@pytest.mark.slow
def test_thirty_raters_find_nothing_where_nothing_is(key: Key, tmp_path: Path) -> None:
    """The negative control: 12 tests of two equal systems.

    More than 7 below 0.05 have a probability of 1e-6 even at the stated 8 %.
    """
    folder = with_key(key, tmp_path)
    alarms = 0
    for seed in range(12):
        answer(folder, rated(key, dict.fromkeys(NAMES, 3.0), seed))
        pair = scored(folder, "draws=200")["pairs"][0]
        alarms += pair["p_holm"] < 0.05
    assert alarms <= 7


def test_a_run_gets_the_figure_for_reports(key: Key, runs: Path, tmp_path: Path) -> None:
    folder = with_key(key, tmp_path)
    answer(folder, rated(key, {NAMES[0]: LOW, NAMES[1]: HIGH}, 0))
    other = MeanRating(3.0, None, None, 0.1, 1.0, 40, 4, "0" * 12)
    write_rating(runs / NAMES[0], "smos", other)
    found = scored(folder)
    figures = json.loads((runs / NAMES[0] / "listening.json").read_text())
    assert figures["smos"]["value"] == 3.0  # of another test
    assert figures["mos"]["value"] == found["means"][NAMES[0]]["value"]
    assert figures["mos"]["raters"] == 30


def test_a_run_that_is_gone_is_told(
    key: Key, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = [ComparedSystem(one.name, f"/nowhere/{one.name}") for one in key.systems]
    folder = with_key(dataclasses.replace(key, systems=gone), tmp_path)
    answer(folder, rated(key, dict.fromkeys(NAMES, 3.0), 0))
    assert scored(folder, "draws=100")["raters"] == 30
    said = capsys.readouterr().err
    assert said.count("is gone: sst-report will not see its figure") == 2


@pytest.mark.parametrize("test", ["smos", "cmos", "ab"])
def test_every_kind_finds_the_better_one(test: str, runs: Path, tmp_path: Path) -> None:
    key = make_test(tmp_path, runs, f"test={test}", "raters=12", "samples=10", "baseline=target")
    sheets = rated(key, {NAMES[0]: 2.81, NAMES[1]: 3.19}, 0)
    answer(tmp_path, sheets)
    found = scored(tmp_path)
    assert found["raters"] == 12
    difference = found["pairs"][0]["difference"]
    assert difference["low"] > 0
    if test in ("cmos", "ab"):
        assert found["means"] == {}
        baseline, _, system = found["pairs"][0]["preferred"]
        assert system > baseline
    else:
        assert list(found["means"]) == NAMES
    assert -1 < found["alpha"] <= 1


def test_raters_alike_agree(key: Key, tmp_path: Path) -> None:
    """All give a clip the same: alpha is 1; at random it is near 0."""
    folder = with_key(key, tmp_path)
    sheets = rated(key, dict.fromkeys(NAMES, 3.0), 0)
    for sheet in sheets:
        for one in sheet["answers"]:
            trial = key.raters[sheet["rater"] - 1][one["trial"]]
            if not key.is_check(trial):
                one["values"] = [float(int(trial.clips[0][:4], 16) % 5 + 1)]
    answer(folder, sheets)
    assert scored(folder, "draws=100")["alpha"] == pytest.approx(1.0)


def test_agreement_on_pairs_is_not_of_the_blind_names(runs: Path, tmp_path: Path) -> None:
    """Raters who prefer one system by 1 or 2 at random agree by chance alone; alpha was 0.75.

    Each pair was turned as its clips' random names sort, so that pairs seemed to differ.
    """
    key = make_test(tmp_path, runs, "test=cmos", "raters=12", "samples=10", "baseline=target")
    rng, sheets = np.random.default_rng(0), rated(key, dict.fromkeys(NAMES, 3.0), 0)
    for sheet in sheets:
        for one in sheet["answers"]:
            trial = key.raters[sheet["rater"] - 1][one["trial"]]
            if not key.is_check(trial):
                way = 1 if key.clips[trial.clips[1]].system == NAMES[1] else -1
                one["values"] = [float(way * rng.integers(1, 3))]
    answer(tmp_path, sheets)
    assert abs(scored(tmp_path, "draws=100")["alpha"]) < 0.2


def test_whose_answers_count(key: Key, tmp_path: Path) -> None:
    folder = with_key(key, tmp_path)
    sheets = rated(key, dict.fromkeys(NAMES, 3.0), 0)
    sheets[2]["answers"] = sheets[2]["answers"][:5]  # stopped
    sheets.append(sheets[6] | {"session": "f" * 32, "answers": sheets[6]["answers"][:3]})
    sheets.append(sheets[0])  # downloaded and sent
    answer(folder, sheets)
    found = scored(folder, "draws=100")
    assert found["raters"] == 29
    assert found["left_out"]["unfinished"] == ["rater 3"]
    assert found["left_out"]["repeated"] == ["rater 7"]
    assert scored(folder, "draws=100", "partial=true")["raters"] == 30


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "another test": ({"test": "0" * 12}, "answers to test"),
    "number": ({"rater": 31}, "rater 31, there are 30"),
    "session": ({"session": "../../etc"}, "session or name"),
    "name": ({"name": "x" * 101}, "session or name"),
    "trial": ({"answers": [{"trial": 99, "values": [3.0], "seconds": 1, "plays": 1}]}, "trial 99"),
    "value": ({"answers": [{"trial": 0, "values": [6], "seconds": 1, "plays": 1}]}, "1 of 1 to 5"),
    "half": ({"answers": [{"trial": 0, "values": [2.5], "seconds": 1, "plays": 1}]}, "1 of 1 to"),
    "two": ({"answers": [{"trial": 0, "values": [3, 3], "seconds": 1, "plays": 1}]}, "1 of 1 to"),
    "text": ({"answers": "none"}, "answers is"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_spoilt_sheet_is_told_in_a_line(
    name: str, key: Key, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, (change, said) = with_key(key, tmp_path), BAD[name]
    answer(folder, [rated(key, dict.fromkeys(NAMES, 3.0), 0)[0] | change])
    assert main(["score", f"folder={folder}"]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert said in line
    assert "0.json" in line


def test_no_answers_and_no_rater(
    key: Key, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = with_key(key, tmp_path)
    assert main(["score", f"folder={folder}"]) == 2
    assert "holds no answers" in capsys.readouterr().err
    answer(folder, rated(key, dict.fromkeys(NAMES, 3.0), 0, careless=tuple(range(31)))[:3])
    assert main(["score", f"folder={folder}"]) == 2
    assert "no rater counts: left out, failed attention checks: 3" in capsys.readouterr().err


def test_power_says_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["power", "difference=0.2"]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("30 raters, each 10 other utterances: a difference of 0.2 is found in")
    assert second.endswith("raters find 0.2 in 80 % of tests")
    assert "noise=1.20 between_raters=0.30" in third
