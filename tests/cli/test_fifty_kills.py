"""Fifty kills at random moments, over every stage, on this machine and on a Ray cluster.

Each stage is killed five times with workers of its own and five times on two nodes: the command,
one of its workers, or a whole node. What it ends with is what an undisturbed run has, byte for
byte but for what the clock says.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile
from fake_models import FakeModels, tone, write_fake_models
from killing import (
    TwoNodes,
    kill_child,
    kill_driver,
    killed,
    start,
    through,
    two_nodes,
    untimed_runs,
    written,
)
from libritts_clips import lay_out
from small_target import save_codes, save_target

pytestmark = pytest.mark.full
KILLS = 5  # of a stage, on one machine and on two nodes
Result = Callable[[Path], object]


@dataclass(frozen=True)
class Stage:
    """A command, where it writes, what of it must not change, and how it asks for Ray."""

    command: str
    settings: tuple[str, ...]
    out: str  # the setting
    result: Result
    on_ray: str  # the setting's beginning


def contents(*patterns: str) -> Result:
    """Bytes of the files that match."""
    return lambda out: {
        str(path.relative_to(out)): path.read_bytes()
        for pattern in patterns
        for path in sorted(out.glob(pattern))
    }


def tables(out: Path) -> object:
    """Rows of shards."""
    return {path.name: pq.read_table(path).to_pylist() for path in out.glob("codes/*.parquet")}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> FakeModels:
    return write_fake_models(tmp_path_factory.mktemp("models"), utterances=16)


@pytest.fixture(scope="module")
def stages(models: FakeModels, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stage]:
    root = tmp_path_factory.mktemp("stages")
    save_target(root / "target")
    save_codes(root / "codes")
    rng = np.random.default_rng(0)
    rows = []
    for number in range(24):
        soundfile.write(root / f"u{number}.wav", tone(rng, seconds=0.6), 16_000)
        rows.append({"id": f"u{number}", "text": "alpha two", "audio": f"u{number}.wav"})
    (root / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = lay_out(root / "corpus")
    training = ("layers=[0,3]", "warmup=2", "steps=60", "save_every=5", "eval_every=100")
    sweep = "hydra.launcher"
    return {
        "decode": Stage(
            "decode",
            (*models.overrides, "rule.beta=0,0.4", "batch_size=2", "timing=0"),
            "out",
            untimed_runs,
            sweep,
        ),
        "eval": Stage(
            "eval",
            (f"list={root / 'list.jsonl'}", "metrics=[wer]", "judges.batch=2", "draws=50"),
            "out",
            contents("scores.jsonl"),
            "cluster",
        ),
        "prepare": Stage(
            "prepare",
            ("corpus=libritts", f"path={corpus}", "parts=[test-clean]", "shard_size=1"),
            "out",
            tables,
            "cluster",
        ),
        "precompute": Stage(
            "precompute",
            ("cache=transitions", f"transitions.codes={root / 'codes'}", "codec.path=tiny:codec"),
            "transitions.cache",
            contents("**/*.npy", "**/*.npz"),
            "cluster",
        ),
        "train": Stage(
            "train-draft",
            (*training, f"target.path={root / 'target'}", f"codes={root / 'codes'}", "seed=0"),
            "out",
            contents("*.safetensors", "training/metrics.jsonl"),
            sweep,
        ),
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoNodes]:
    pytest.importorskip("ray", reason="extra ray")
    with two_nodes() as nodes:
        yield nodes


@pytest.mark.parametrize("name", ["decode", "eval", "prepare", "precompute", "train"])
def test_on_this_machine(stages: dict[str, Stage], tmp_path: Path, name: str) -> None:
    random = Random(f"here {name}")
    kills = [random.choice([kill_driver, kill_child]) for _ in range(KILLS)]
    copies = ["workers=2"] if name == "decode" else []
    compare(stages[name], copies, kills, tmp_path, random)


@pytest.mark.parametrize("name", ["decode", "eval", "prepare", "precompute", "train"])
def test_on_two_nodes(
    cluster: TwoNodes, stages: dict[str, Stage], tmp_path: Path, name: str
) -> None:
    stage, random = stages[name], Random(f"ray {name}")
    asked = ["--multirun", "hydra/launcher=ray"] if "." in stage.on_ray else ["cluster=ray"]
    asked += [f"{stage.on_ray}.address={cluster.address}", f"{stage.on_ray}.retries=9"]
    kinds = [kill_driver, cluster.kill_worker, cluster.kill_node]
    kills = [random.choice(kinds) for _ in range(KILLS)]
    compare(stage, asked, kills, tmp_path, random)


def compare(stage: Stage, asked: list[str], kills: list, folder: Path, random: Random) -> None:  # type: ignore[type-arg]
    """The stage undisturbed by one process, and killed."""
    whole, cut = folder / "whole" / "out", folder / "cut" / "out"
    through(start(stage.command, [*stage.settings, f"{stage.out}={whole}"]))
    expected = stage.result(whole)
    assert expected
    arguments = [*stage.settings, *asked, f"{stage.out}={cut}"]
    assert killed(stage.command, arguments, cut, written(whole), kills, random) == KILLS
    assert stage.result(cut) == expected
    assert not list(cut.glob("**/*.tmp"))
