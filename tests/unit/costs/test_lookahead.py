"""lookahead=auto: what is measured, what is kept, and what becomes of it in a run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speculative_tts.assets import resolve
from speculative_tts.commands import bench, decode
from speculative_tts.costs import lookahead
from speculative_tts.costs.lookahead import (
    LookaheadCost,
    best,
    requests_of,
    settled,
    table,
    written_out,
)
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine
from speculative_tts.records import read_list
from speculative_tts.runs.naming import run_name
from speculative_tts.schema.decode import DecodeConfig
from tests.fake_models import FakeModels


def config_of(models: FakeModels, *settings: str) -> DecodeConfig:
    return decode.main.compose([*models.overrides, *settings])


def measured(engine: Engine, models: FakeModels) -> list[LookaheadCost]:
    return table(engine, requests_of(engine, read_list(models.root / "list.jsonl"), 0))


def test_a_draft_that_is_its_target_passes_everywhere(models: FakeModels) -> None:
    config = config_of(models, f"draft.path={models.root / 'target'}", "lookahead=1")
    rows = measured(Builder(config).engine(), models)
    assert [row.lookahead for row in rows] == [*range(1, 9)]
    assert [row.tokens for row in rows] == [row.lookahead + 1 for row in rows]
    assert all(row.round_seconds > 0 and row.speedup > 0 for row in rows)
    speeds = [row.speedup / row.tokens_per_second for row in rows]
    assert max(speeds) == pytest.approx(min(speeds))  # over one and the same target alone


def test_tokens_of_a_round_are_those_of_its_runs(models: FakeModels) -> None:
    """What a lookahead's own utterances emit, within what the others' differ; not the longest's."""
    engine = Builder(config_of(models, "lookahead=1", "rule=exact")).engine()
    requests = requests_of(engine, read_list(models.root / "list.jsonl"), 0)
    assert engine.speculation is not None
    rows = {row.lookahead: row.tokens for row in table(engine, requests)}
    for k in (1, 4):
        outcomes = replace(engine.speculation, lookahead=k).decode(requests)
        counts = [outcome.counts for outcome in outcomes]
        emitted = sum(len(one.tokens) - 1 for one in outcomes)
        assert rows[k] == pytest.approx(emitted / sum(one.rounds for one in counts), rel=0.2)
    assert 1 < rows[1] < rows[4] <= rows[8]


def test_heads_draft_no_further_than_they_reach() -> None:
    config = decode.main.compose(["target=tiny_valle", "drafter=heads", "heads.n=4", "limit=1"])
    engine = Builder(replace(config, lookahead=1)).engine()
    (item, *_) = read_list(resolve(config.data.path))
    requests = [replace(r, min_tokens=0, max_tokens=8) for r in requests_of(engine, [item], 0)]
    assert [row.lookahead for row in table(engine, requests)] == [1, 2, 3]


def test_the_best_is_that_of_the_most_tokens_a_second() -> None:
    rows = [
        LookaheadCost(1, 0.1, 1.5, 1.1),
        LookaheadCost(2, 0.12, 2.0, 1.3),
        LookaheadCost(3, 0.2, 2.2, 0.8),
    ]
    assert best(rows).lookahead == 2


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Measurements that were made; each finds a lookahead of 2."""
    made: list[int] = []

    def probe(config: DecodeConfig, kept: object) -> dict[str, Any]:
        made.append(1)
        row = {"lookahead": 2, "round_seconds": 0.1, "tokens": 2.5, "speedup": 1.2}
        return {"lookahead": 2, "rows": [row], "date": "today"}

    monkeypatch.setattr(lookahead, "_measured", probe)
    return made


def test_frequent_codes_are_another_draft() -> None:
    """With so many of them a number was told that had been found with all."""
    chosen = ["target=tiny_fine", "drafter=recurrent", "lookahead=auto"]
    settings = ([], ["drafter.codes=64"], ["drafter.codes=1024"], ["drafter.dtype=bfloat16"])
    assert (
        len({lookahead.cost_key(decode.main.compose([*chosen, *more])) for more in settings}) == 4
    )


def test_a_number_is_found_once_for_what_it_hangs_on(
    models: FakeModels, tmp_path: Path, probes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*settings: str) -> int:
        config = config_of(models, "lookahead=auto", *settings)
        given, found = settled(config, cache=tmp_path / "cache")
        assert given.lookahead == found["lookahead"]["lookahead"] == 2
        return len(probes)

    assert asked() == 1
    assert asked() == asked("seed=3", "limit=2", "timing=1", "runtime.warmup=0") == 1
    assert asked("rule=tolerance", "rule.beta=0.3") == 2
    assert asked("sampling.top_k=3") == 3
    assert asked("runtime.dtype=bfloat16") == 4
    machine = lookahead.hardware()
    monkeypatch.setattr(lookahead, "hardware", lambda **_: machine | {"cpu": "another"})
    assert asked() == 5
    config = config_of(models, "lookahead=4")
    assert settled(config, cache=tmp_path / "cache") == (config, {})


def test_a_run_has_the_number_and_tells_where_it_is_from(
    models: FakeModels, tmp_path: Path, probes: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*models.overrides, f"out={tmp_path}", "limit=2", "seed=0,1"]
    assert decode.main([*arguments, "lookahead=auto", "plan=true"]) == 0
    assert decode.main([*arguments, "lookahead=auto"]) == 0
    assert len(probes) == 1  # of the whole sweep
    assert "lookahead=auto: 2, 2.50 tokens a round, 1.20 times" in capsys.readouterr().out
    for folder in tmp_path.glob("speculative-*"):
        assert "-k2-" in folder.name
        assert json.loads((folder / "config.json").read_text())["lookahead"] == 2
        made = json.loads((folder / "provenance.json").read_text())
        assert made["lookahead"]["rows"][0]["tokens"] == 2.5
    assert decode.main([*arguments, "lookahead=2"]) == 0  # the same runs
    assert capsys.readouterr().out.count("done already, skipped") == 2
    assert decode.main([*arguments, "lookahead=auto", "method=target"]) == 0
    assert len(probes) == 1


@pytest.mark.parametrize(
    ("main", "settings", "message"),
    [
        (
            decode.main,
            ["rule=tolerance", "match=length:2"],
            "compares rules at one lookahead, and lookahead=auto finds each rule its own",
        ),
        (
            bench.main,
            ["random=cosyvoice2"],
            "lookahead=auto follows from what a draft gets right, and random weights have no such",
        ),
    ],
)
def test_where_it_means_nothing_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], main: Any, settings: list[str], message: str
) -> None:
    assert main(["lookahead=auto", f"out={tmp_path / 'out'}", *settings]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert line.endswith("; give lookahead=<number>")
    assert not (tmp_path / "out").exists()


def test_adaptive_is_a_number_and_an_entropy(models: FakeModels, tmp_path: Path) -> None:
    """Which `test_draft_exactness` holds exact; the run's name and records have both."""
    config = written_out(config_of(models, "lookahead=adaptive"))
    assert run_name(config) == run_name(config_of(models, "lookahead=8", "drafter.entropy=1.5"))
    assert run_name(written_out(config)) == run_name(config)
    own = written_out(config_of(models, "lookahead=adaptive", "drafter.entropy=0.7"))
    assert own.drafter.label == ["h0.7"]
    given = [*models.overrides, "lookahead=adaptive", "limit=1", "runtime.warmup=0", "instrument=0"]
    assert decode.main([*given, f"out={tmp_path}"]) == 0
    (folder,) = tmp_path.glob("speculative-exact-k8-h1.5-s0-*")
    made = json.loads((folder / "provenance.json").read_text())
    assert (made["config"]["lookahead"], made["config"]["drafter"]["entropy"]) == (8, 1.5)
    assert "lookahead=adaptive" in made["argv"]


@pytest.mark.parametrize("command", [decode, bench])
def test_adaptive_wants_a_draft_model(
    command: Any, models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [*models.overrides, "drafter=lookup", "lookahead=adaptive", f"out={tmp_path}"]
    assert command.main(given) == 2
    assert "drafter is lookup; give drafter=lm, or lookahead=<number>" in capsys.readouterr().err


def test_a_number_is_of_so_many_heads(probes: list[int], tmp_path: Path) -> None:
    """Of eight heads it may be further than three reach."""
    for n, made in ((8, 1), (3, 2), (8, 2)):
        given = ["target=tiny_valle", "drafter=heads", f"heads.n={n}", "lookahead=auto"]
        settled(decode.main.compose(given), cache=tmp_path)
        assert len(probes) == made


def test_rounds_without_a_draft_count(models: FakeModels) -> None:
    """Look-up drafts in few rounds; what passed there was taken for what passes in all."""
    config = config_of(models, "lookahead=1", "rule=exact", "drafter=lookup", "drafter.shortest=2")
    engine = Builder(config).engine()
    requests = requests_of(engine, read_list(models.root / "list.jsonl"), 0)
    assert engine.speculation is not None
    rows = {row.lookahead: row.tokens for row in table(engine, requests)}
    outcomes = replace(engine.speculation, lookahead=1).decode(requests)
    counts = [outcome.counts for outcome in outcomes]
    rounds, drafted, accepted = (
        sum(getattr(one, name) for one in counts) for name in ("rounds", "drafted", "accepted")
    )
    assert 2 * drafted < rounds  # or it would hold by itself
    assert rows[1] - 1 == pytest.approx(accepted / rounds, rel=0.4)
