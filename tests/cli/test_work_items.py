"""A run's utterances, timed or together: the same tokens however the work is cut, each once."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fake_models import FakeModels, write_fake_models
from killing import kill_driver, killed, untimed_runs, written
from run_records import records, untimed

from speculative_tts.commands import decode
from speculative_tts.decoding.engine import Engine
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.sources import read_run
from speculative_tts.evaluation.summary import Bootstrap, interval
from speculative_tts.schema.decode import System

UTTERANCES = 14
SYSTEMS = ["rule=tolerance", "system=target"]
SYSTEMS += [pytest.param(f"system={one}", marks=pytest.mark.whole) for one in ("draft", "uncached")]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> FakeModels:
    return write_fake_models(tmp_path_factory.mktemp("models"), utterances=UTTERANCES)


def made(models: FakeModels, out: Path, *settings: str) -> list[dict[str, Any]]:
    """Records of one run below `out`."""
    common = [*models.overrides, f"out={out}", "instrument=0"]
    assert decode.main([*common, *settings]) == 0
    return records(out)


@pytest.mark.parametrize("system", SYSTEMS)
def test_tokens_do_not_depend_on_how_the_work_is_cut(
    models: FakeModels, tmp_path: Path, system: str
) -> None:
    """By batches of any size, one by one, and in both orders of the list."""
    ways = [["timing=null"], ["timing=5"], *([f"batch_size={n}"] for n in (1, 3, 16))]
    runs = [
        untimed(made(models, tmp_path / str(n), system, "timing=0", *way))
        for n, way in enumerate(ways)
    ]
    assert all(run == runs[0] for run in runs)
    assert [row["id"] for row in runs[0]] == [f"u{n}" for n in range(UTTERANCES)]
    backwards = models.root / "backwards.jsonl"
    rows = (models.root / "list.jsonl").read_text().splitlines()
    backwards.write_text("\n".join(rows[::-1]) + "\n")
    again = made(models, tmp_path / "back", system, "timing=3", f"data.path={backwards}")
    assert untimed(again)[::-1] == runs[0]


def test_speed_is_of_what_was_timed_and_counts_are_of_all(
    models: FakeModels, tmp_path: Path
) -> None:
    rows = made(models, tmp_path, "timing=4", "rule=tolerance")
    timed = [row["id"] for row in rows if row["lm_seconds"] is not None]
    assert timed == ["u0", "u3", "u7", "u10"]  # evenly spread
    assert all((row["id"] in timed) == (row["baseline_seconds"] is not None) for row in rows)
    (folder,) = (path.parent for path in tmp_path.glob("*/DONE"))
    scored = read_run(folder).samples
    counted = {
        name: interval(scored, metric, Bootstrap(draws=0)) for name, metric in METRICS.items()
    }
    for name, found in counted.items():
        if METRICS[name].timed:
            assert found.n in (0, 4), name  # nothing was streamed
    assert counted["speedup"].n == counted["lm_rtf"].n == 4
    assert counted["acceptance_rate"].n == counted["acceptance_length"].n == UTTERANCES
    seconds = [row for row in rows if row["id"] in timed]
    one = sum(float(str(row["lm_seconds"])) for row in seconds)
    tokens = sum(int(str(row["tokens"])) for row in seconds)
    assert counted["time_per_token_ms"].value == pytest.approx(1000 * one / tokens)


def test_the_target_alone_is_decoded_once_for_all_runs(
    models: FakeModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its runs of another length of the list, of another folder, and of system=uncached."""
    together, alone = Counter[str](), Counter[tuple[str, str]]()
    stream, one = Engine.stream, Engine.decode

    def streamed(self: Engine, system: System, requests: list, *rest: object) -> object:  # type: ignore[type-arg]
        together.update(request.id for request in requests)
        return stream(self, system, requests, *rest)  # type: ignore[arg-type]

    def decoded(self: Engine, system: System, requests: list, *rest: object) -> object:  # type: ignore[type-arg]
        alone.update((system.name, request.id) for request in requests)
        return one(self, system, requests, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "stream", streamed)
    monkeypatch.setattr(Engine, "decode", decoded)
    shared = ["runtime.warmup=0", f"cache={tmp_path / 'shared'}"]
    runs = [
        made(models, tmp_path / str(n), "timing=2", *shared, *settings)
        for n, settings in enumerate(
            (["system=target"], ["system=target", "limit=7"], ["system=uncached"])
        )
    ]
    assert untimed(runs[0]) == untimed(runs[2])
    assert set(together) == {row["id"] for row in runs[0] if row["lm_seconds"] is None}
    assert set(together.values()) == {1}
    assert alone == {(name, "u0"): n for name, n in (("target", 3), ("uncached", 1))} | {
        ("target", "u7"): 2, ("uncached", "u7"): 1, ("target", "u6"): 1,
    }  # fmt: skip
    made(models, tmp_path / "seed", "timing=0", *shared, "system=target", "seed=1")
    assert set(together.values()) == {1, 2}  # another seed's are others


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("system", ["rule=tolerance", "system=target"])
def test_kills_at_random_moments_change_nothing(
    models: FakeModels, tmp_path: Path, system: str
) -> None:
    """SIGKILL until the run is through: records but for their times, and audio, byte for byte."""
    settings = [system, "timing=4", "batch_size=3", "instrument=2"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    made(models, whole, *settings)
    given = [*models.overrides, f"out={cut}", *settings]
    kills = [kill_driver] * 3
    assert killed("decode", given, cut, written(whole), kills, Random(0)) == 3
    assert untimed_runs(cut) == untimed_runs(whole)
    assert not list(cut.glob("**/*.tmp"))
