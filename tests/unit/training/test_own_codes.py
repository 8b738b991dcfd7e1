"""Codes of the training texts that the target itself says, as a store for the trainers."""

import json
from pathlib import Path

import pytest
from own_store import LONG, make, names, read, rows

from speculative_tts.decoding import build
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig, CodecConfig
from speculative_tts.schema.decode import EngineConfig, System
from speculative_tts.schema.train import CodesFrom, TrainHeadsConfig
from speculative_tts.training.data.pairs import load_data
from tests.fake_models import FakeModels

COLUMNS = ("id", "speaker", "split", "text", "codes")


def test_texts_are_said_by_the_target(models: FakeModels, tmp_path: Path) -> None:
    """The tokens are an engine's for the same prompt; what did not end is left out and counted."""
    assert make(models, tmp_path, "sampling.max_tokens_per_word=20") == 0
    own, config = tmp_path / "own", EngineConfig(
        target=CheckpointConfig(name="fake", path=str(models.root / "target")),
        codec=CodecConfig(name="tiny", path=str(models.root / "codec")),
    )  # fmt: skip
    config.sampling.max_tokens_per_word = 20
    engine = build.build_engine(config, System.target)
    said = {row["id"]: row for row in read(own / "train-own-0000.parquet")}
    recorded = rows("train", 0, 5)
    alone = engine.request("train-0000/4", Prompt(str(recorded[4]["text"])), 0)
    (outcome,) = engine.decode(System.target, [alone]).outcomes
    assert outcome.stopped == ("train0-4" in said)
    if outcome.stopped:
        assert said["train0-4"]["codes"] == engine.codes(outcome)
    for row in said.values():
        assert set(row) == {*COLUMNS}
        assert row["text"] == recorded[int(str(row["id"])[-1])]["text"]
    assert names(own) == ["train-own-0000.parquet", "train-own-0001.parquet"]


def test_jobs_share_shards_and_what_is_there_stays(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own"
    assert make(models, tmp_path, "jobs=2", "job=1") == 0
    assert names(own) == ["train-own-0001.parquet"]
    before = (own / "train-own-0001.parquet").stat().st_mtime_ns
    capsys.readouterr()
    assert make(models, tmp_path) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["utterances"] + facts["left_out"] == 5  # of the first shard alone
    assert (own / "train-own-0001.parquet").stat().st_mtime_ns == before
    assert make(models, tmp_path, "seed=3") == 2
    assert "seed=0, now 3" in capsys.readouterr().err


@pytest.mark.parametrize("whose", CodesFrom)
def test_trainers_learn_from_recorded_own_or_both(
    models: FakeModels, tmp_path: Path, whose: CodesFrom
) -> None:
    """An epoch has each utterance of them once; dev sequences are recorded."""
    assert make(models, tmp_path, "limit=2", LONG) == 0
    target = CheckpointConfig(name="fake", path=str(models.root / "target"))
    asked = TrainHeadsConfig(
        target, str(tmp_path / "codes"), codes_from=whose, own=str(tmp_path / "own")
    )
    shards = {
        CodesFrom.recorded: ["codes"], CodesFrom.target: ["own"], CodesFrom.mix: ["codes", "own"]
    }[whose]  # fmt: skip
    stored = [path for folder in shards for path in (tmp_path / folder).glob("train-*.parquet")]
    expected = sorted(str(row["codes"]) for path in stored for row in read(path))
    data = load_data(asked, 2)
    pairs = data.batch.__self__  # type: ignore[attr-defined]
    assert sorted(str(pairs.pair(number)[1].codes) for number in range(len(pairs))) == expected
    assert len(data.dev) == 1


def test_a_target_that_never_ends_is_told(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("sampling.min_tokens_per_word=5", "sampling.max_tokens_per_word=5")
    assert make(models, tmp_path, *settings) == 2
    assert "no text was said to its end; look at the target" in capsys.readouterr().err
    assert not (tmp_path / "own/train-own-0000.parquet").exists()


def test_an_empty_folder_is_told(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path / "codes").glob("*"):
        path.unlink()
    assert make(models, tmp_path) == 2
    assert "give codes=<codes of sst-prepare>" in capsys.readouterr().err
