"""Several listeners at once: who asks when, what each waits for, and how the table says it."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest
import torch
from fake_models import FakeModels

from speculative_tts.bench import closed_loop as loop
from speculative_tts.bench.asked import Asked
from speculative_tts.bench.closed_loop import Load, Served, closed_loop, measured
from speculative_tts.bench.streams import markdown
from speculative_tts.commands import decode
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.loops.graphs import Graphs
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.decode import System

SYSTEMS = (System.target, System.speculative)


@pytest.fixture(scope="module")
def engine(models: FakeModels) -> Engine:
    return Builder(decode.main.compose([*models.overrides, "system=speculative"])).engine()


def asked(engine: Engine, number: int) -> list[Asked]:
    """Utterances of several lengths."""
    found = []
    for n in range(number):
        prompt = Prompt("one two", "two", torch.arange(20))
        request = engine.request(f"u{n}", prompt, 3)
        found.append(Asked(replace(request, max_tokens=request.max_tokens - 3 * n), prompt))
    return found


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("clients", [1, 2, 4])
def test_each_is_served_once_what_it_gets_alone(
    system: System, clients: int, engine: Engine
) -> None:
    rows = asked(engine, 3)
    load = closed_loop(engine, system, rows, clients)
    alone = [engine.decode(system, [one.request]).outcomes[0].tokens for one in rows]
    assert [one.tokens for one in load.served] == alone
    for one, tokens in zip(load.served, alone, strict=True):
        codes = sum(token < engine.codec.n_codes for token in tokens)
        assert one.audio_seconds == pytest.approx(codes / engine.codec.token_rate)
        assert 0 < one.first_audio_ms <= 1000 * one.real_time_factor * one.audio_seconds + 1e-6
        assert one.token_ms > 0
    assert load.tokens > 0


@pytest.mark.parametrize("clients", [1, 3])
def test_all_clients_are_busy_until_the_last_measured_one_has_ended(
    clients: int, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load that thins out at its end makes the last utterances look fast."""
    rows, running, ended = asked(engine, 3), [], set[str]()
    real = Graphs.serve

    def watched(self: Graphs, *given: object) -> Iterator[object]:
        for seen in real(self, *given):  # type: ignore[arg-type]
            if len(ended) < len(rows):
                running.append(len(seen))
            yield seen
            ended.update(row.rows.requests[0].id for row, done in seen.values() if done)
            ended.intersection_update(one.request.id for one in rows)

    monkeypatch.setattr(Graphs, "serve", watched)
    closed_loop(engine, System.target, rows, clients)
    assert {*running} == {clients}


def test_times_by_a_clock_that_ticks_at_each_look(engine: Engine) -> None:
    """A second client that asks while the first is served waits for the other's steps too."""
    ticks = count()
    rows = asked(engine, 2)
    alone = closed_loop(engine, System.target, rows, 1, lambda: float(next(ticks)))
    two = closed_loop(engine, System.target, rows, 2, lambda: float(next(ticks)))
    for one, other in zip(alone.served, two.served, strict=True):
        assert one.first_audio_ms % 1000 == 0
        assert one.first_audio_ms < other.first_audio_ms
        assert one.token_ms < other.token_ms


def test_nothing_said_is_a_moment_of_silence(engine: Engine) -> None:
    """An utterance that ends at once broke the benchmark off."""
    (one,) = asked(engine, 1)
    barred = replace(one.request, min_tokens=0, max_tokens=1)
    load = closed_loop(engine, System.target, [Asked(barred, one.prompt)], 2)
    assert load.served[0].audio_seconds > 0


def test_systems_take_turns(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One half of the utterances in one order, the other in the opposite."""
    order = list[tuple[str, tuple[str, ...]]]()

    def noted(_: object, system: System, rows: list[Asked], clients: int) -> Load:
        order.append((system.name, tuple(one.request.id for one in rows)))
        return Load([], clients, 1.0)

    monkeypatch.setattr(loop, "closed_loop", noted)
    both = {one.name: (engine, one) for one in SYSTEMS}
    found = measured(both, asked(engine, 3), 5)
    assert order == [
        ("target", ("u0", "u2")),
        ("speculative", ("u0", "u2")),
        ("speculative", ("u1",)),
        ("target", ("u1",)),
    ]
    assert {name: (one.tokens, one.seconds) for name, one in found.items()} == {
        "target": (10, 2.0),
        "speculative": (10, 2.0),
    }


def test_percentiles_and_the_table_by_hand() -> None:
    served = [Served(f"u{n}", [1] * n, n, 10 * n, n / 100, 1.0) for n in range(1, 22)]
    load = Load(served, 4200, 2.0)
    found = load.percentiles()
    assert list(found) == ["token_ms", "first_audio_ms", "real_time_factor"]
    for values, scale in zip(found.values(), (1, 10, 0.01), strict=True):
        assert values == pytest.approx([11 * scale, 20 * scale])
    row = {
        "target": "tiny",
        "streams": 4,
        "system": "target alone",
        **load.percentiles(),
        "tokens_per_second": load.tokens / load.seconds,
        "seed": 7,
        "utterances": served,
        "provenance": {"argv": ["sst-bench", "streams=4"], "hardware": {"cpu": "a CPU"}},
    }
    said = markdown([row])
    assert "| tiny | 4 | target alone | 11.00 | 20.00 | 110 | 200 | 0.110 | 0.200 | 2100 |" in said
    assert "over 21 utterances, seed 7." in said
    assert "Made by: `sst-bench streams=4`, a CPU" in said
