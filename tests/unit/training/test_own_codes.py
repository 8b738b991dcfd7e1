"""Codes of the training texts that the target itself says, as a store for the trainers."""

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from own_store import LONG, make, names, read, rows

from speculative_tts.commands import train_heads
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine
from speculative_tts.models.families.registry import load_layout
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig, CodecConfig
from speculative_tts.schema.decode import EngineConfig, System
from speculative_tts.schema.train import CodesFrom, TrainHeadsConfig
from speculative_tts.training.data.pairs import IGNORED, SequenceBatch, load_data
from speculative_tts.training.data.splits import ar_splits
from speculative_tts.typed import read_json
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
    engine = Builder(config).engine(System.target)
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
    said = [len(pq.read_table(path)) for path in own.glob("train-own-*.parquet")]
    assert len(said) == 2
    assert facts["utterances"] == sum(said)  # of both, though one was there
    assert facts["utterances"] + facts["left_out"] == 9  # of both shards
    assert facts["codes"] > facts["utterances"]
    assert make(models, tmp_path) == 0
    assert json.loads(capsys.readouterr().out) == facts
    assert (own / "train-own-0001.parquet").stat().st_mtime_ns == before
    assert make(models, tmp_path, "seed=3") == 2
    assert "seed=0, now 3" in capsys.readouterr().err


def test_minutes_decide_once_how_many_texts_are_said(
    models: FakeModels,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Five texts are timed, 20 s; of what is left each of two shards has half, 4 s a text."""
    now, stream = [0.0], Engine.stream

    def slow(self: Engine, *given: Any) -> Iterator[Any]:
        now[0] += 20
        yield from stream(self, *given)

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Engine, "stream", slow)
    assert make(models, tmp_path, LONG, "minutes=0.1") == 2
    assert "minutes=0.1 hold no text of each of 2 shards at 4 s a text; give minutes=1," in (
        capsys.readouterr().err
    )
    own = tmp_path / "own"
    assert not own.exists()
    assert make(models, tmp_path, LONG, "minutes=0.7") == 0
    assert read_json(own / "training/fitted.json") == {"limit": 2}
    facts = json.loads(capsys.readouterr().out)
    assert facts["utterances"] + facts["left_out"] == 4
    (own / "train-own-0001.parquet").unlink()  # as if it had been killed before
    now[0] = 0.0
    monkeypatch.setattr(Engine, "stream", stream)  # now nothing takes any time
    assert make(models, tmp_path, LONG, "minutes=0.7") == 0
    assert json.loads(capsys.readouterr().out) == facts


def stored(tmp_path: Path, whose: CodesFrom) -> list[object]:
    """Codes that are to be learnt."""
    folders = {
        CodesFrom.recorded: ["codes"], CodesFrom.target: ["own"], CodesFrom.mix: ["codes", "own"]
    }[whose]  # fmt: skip
    shards = [path for folder in folders for path in (tmp_path / folder).glob("train-*.parquet")]
    return sorted(row["codes"] for path in shards for row in read(path))  # type: ignore[type-var]


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
    data = load_data(asked, 2)
    pairs = data.batch.__self__  # type: ignore[attr-defined]
    for begin in (0, len(pairs)):
        epoch = range(begin, begin + len(pairs))
        said = sorted(pairs.pair(number)[1].codes for number in epoch)
        assert said == stored(tmp_path, whose)
    assert len(data.dev) == 1


@pytest.mark.parametrize("whose", CodesFrom)
def test_a_trunk_learns_from_recorded_own_or_both_too(
    models: FakeModels, tmp_path: Path, whose: CodesFrom, capsys: pytest.CaptureFixture[str]
) -> None:
    """It read recorded codes alone. Epochs are of what is learnt; dev batches are recorded."""
    assert make(models, tmp_path, "limit=3", LONG) == 0
    target, own = str(models.root / "target"), str(tmp_path / "own")
    asked = TrainHeadsConfig(
        CheckpointConfig(name="fake", path=target), str(tmp_path / "codes"), whose, own
    )
    asked.joint.frames = 150
    splits = ar_splits(asked)
    end = load_layout(asked.target).eos_id  # type: ignore[attr-defined]

    def read_of(batches: Iterable[SequenceBatch]) -> list[list[int]]:
        rows = [[t for t in row.tolist() if t != IGNORED] for one in batches for row in one.targets]
        assert {row[-1] for row in rows} == {end}
        return sorted(row[:-1] for row in rows)

    epoch = len(splits.train)
    for number in range(2):
        batches = [splits.train[number * epoch + place] for place in range(epoch)]
        assert read_of(batches) == stored(tmp_path, whose)
    assert read_of(splits.dev[place] for place in range(len(splits.dev))) == sorted(
        row["codes"] for row in read(tmp_path / "codes/dev-0000.parquet")
    )
    given = [f"target.path={target}", f"codes={asked.codes}", f"own={own}", "n=2", "warmup=0"]
    joint = ["train_trunk=true", f"codes_from={whose.name}", "joint.epochs=2", "joint.frames=150"]
    capsys.readouterr()
    assert train_heads.main([*given, *joint, f"out={tmp_path / 'heads'}"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["steps"] == 2 * epoch
    assert figures["left_out"] == 0


def test_long_recordings_are_left_out(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recordings have 4 to 8 codes; the shortest two of each shard, one a speaker, stay."""
    assert make(models, tmp_path, "longest=5", LONG) == 0
    said = [row["id"] for name in names(tmp_path / "own") for row in read(tmp_path / "own" / name)]
    assert said == ["train0-0", "train0-1", "train1-0", "train1-1"]
    assert make(models, tmp_path, "longest=3", f"out={tmp_path / 'other'}") == 2
    assert "all recordings have more than longest=3 codes; raise it" in capsys.readouterr().err


def test_a_target_that_never_ends_is_told(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("sampling.min_tokens_per_word=5", "sampling.max_tokens_per_word=5")
    assert make(models, tmp_path, *settings) == 2
    assert "no text was said to its end; look at the target" in capsys.readouterr().err
    assert not (tmp_path / "own/train-own-0000.parquet").exists()
