"""Tables as the sample inputs of Microsoft's P.808 toolkit have them."""

import csv
import re
from pathlib import Path

import pytest
from listening_runs import make_runs, make_test

from speculative_tts.listening.key import Key, Role
from speculative_tts.listening.p808 import PATTERN

AT = "https://clips.example/of/a/test"
NAMES = ["draft-s0-11111111", "target-s0-22222222", "speculative-tolerance-b0.4-k3-s0-33333333"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs(tmp_path_factory.mktemp("p808") / "runs", NAMES, n=6)


def made(folder: Path, runs: Path, test: str) -> tuple[Key, dict[str, list[dict[str, str]]]]:
    settings = [f"test={test}", "raters=4", "samples=4", "baseline=target", f"p808={AT}/"]
    key = make_test(folder, runs, *settings)
    tables = {}
    for path in (folder / "p808").glob("*.csv"):
        with path.open() as file:
            tables[path.name] = list(csv.DictReader(file))
    return key, tables


def test_acr(runs: Path, tmp_path: Path) -> None:
    key, tables = made(tmp_path, runs, "mos")
    assert {name: list(rows[0]) for name, rows in tables.items()} == {
        "rating_clips.csv": ["rating_clips"],
        "training_clips.csv": ["training_clips"],
        "gold_clips.csv": ["gold_clips", "gold_clips_ans"],
        "clips.csv": ["file", "role", "system", "utterance"],
    }
    known = {row["file"]: row for row in tables["clips.csv"]}
    files = {path.name for path in (tmp_path / "p808" / "clips").iterdir()}
    assert files == set(known)
    assert len(files) == len(key.clips)
    systems = [one.name for one in key.systems]
    for row in tables["rating_clips.csv"]:
        address, _, name = row["rating_clips"].rpartition("/")
        assert address == AT
        match = re.match(PATTERN, name)
        assert match is not None
        assert systems[int(match["condition_num"])] == known[name]["system"]
    answers = {row["gold_clips"].rpartition("/")[2]: row for row in tables["gold_clips.csv"]}
    for name, row in answers.items():
        assert row["gold_clips_ans"] == {"high": "5", "low": "1"}[known[name]["role"]]
        assert re.match(PATTERN, name) is None  # no condition
    roles = [one.role for one in key.clips.values()]
    assert len(answers) == roles.count(Role.high) + roles.count(Role.low)
    assert not any(part in name for name in files for part in ("high", "low", "target", "ssd"))


def test_ccr(runs: Path, tmp_path: Path) -> None:
    _, tables = made(tmp_path, runs, "cmos")
    known = {f"{AT}/{row['file']}": row for row in tables["clips.csv"]}
    assert tables["rating_clips.csv"]
    for row in tables["rating_clips.csv"]:
        clip, reference = known[row["rating_clips"]], known[row["references"]]
        assert reference["system"] == NAMES[1]
        assert clip["system"] in (NAMES[0], NAMES[2])
        assert clip["utterance"] == reference["utterance"]
    for row in tables["training_clips.csv"]:
        roles = {known[row[name]]["role"] for name in ("training_clips", "training_references")}
        assert roles == {"high", "low"}
