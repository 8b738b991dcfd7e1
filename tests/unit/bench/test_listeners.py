"""Several listeners at once: who asks when, what each waits for, and how the table says it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest
import torch
from fake_models import FakeModels

from speculative_tts.bench import closed_loop as loop
from speculative_tts.bench.asked import Asked
from speculative_tts.bench.closed_loop import Served, closed_loop, measured
from speculative_tts.bench.figures import ONE_PROCESS
from speculative_tts.bench.streams import ALONE, markdown
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
    served = closed_loop(engine, system, rows, clients)
    alone = [engine.decode(system, [one.request]).outcomes[0].tokens for one in rows]
    assert [one.tokens for one in served] == alone
    for one, tokens in zip(served, alone, strict=True):
        codes = sum(token < engine.codec.n_codes for token in tokens)
        assert one.audio_seconds == pytest.approx(codes / engine.codec.token_rate)
        assert 0 < one.first_audio <= one.seconds
        assert 0 < one.token_seconds < one.seconds


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
    for one, other in zip(alone, two, strict=True):
        assert one.first_audio % 1 == 0
        assert one.first_audio < other.first_audio
        assert one.token_seconds < other.token_seconds


def test_nothing_said_is_a_moment_of_silence(engine: Engine) -> None:
    """An utterance that ends at once broke the benchmark off."""
    (one,) = asked(engine, 1)
    barred = replace(one.request, min_tokens=0, max_tokens=1)
    (served,) = closed_loop(engine, System.target, [Asked(barred, one.prompt)], 2)
    assert served.audio_seconds > 0


def test_systems_take_turns(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One half of the utterances in one order, the other in the opposite."""
    order = list[tuple[str, tuple[str, ...]]]()

    def noted(_: object, system: System, rows: list[Asked], clients: int) -> list[Served]:
        order.append((system.name, tuple(one.request.id for one in rows)))
        return [Served(one.request.id, [], 0, 0, clients, 1) for one in rows]

    monkeypatch.setattr(loop, "closed_loop", noted)
    both = {one.name: (engine, one) for one in SYSTEMS}
    found = measured(both, asked(engine, 3), 5)
    assert order == [
        ("target", ("u0", "u2")),
        ("speculative", ("u0", "u2")),
        ("speculative", ("u1",)),
        ("target", ("u1",)),
    ]
    ids = {name: [one.id for one in served] for name, served in found.items()}
    assert ids == {"target": ["u0", "u2", "u1"], "speculative": ["u0", "u2", "u1"]}


def row(name: str, factor: float, processes: int, utterances: int = 21) -> dict[str, object]:
    """A system of which every process has its own pace, and every utterance its own length."""

    def process(number: int) -> list[dict[str, object]]:
        pace = factor * (1 + number / 10)
        return [
            {
                "id": f"u{n}",
                "tokens": n + 1,
                "token_seconds": pace * n / 1000,
                "first_audio": pace * n / 100,
                "seconds": pace * n,
                "audio_seconds": 10 * n,
            }
            for n in range(1, utterances + 1)
        ]

    return {
        "target": "tiny",
        "streams": 4,
        "system": name,
        "seed": 7,
        "memory": [30.0, 41.0],
        "processes": [process(number) for number in range(processes)],
        "provenance": {"argv": ["sst-bench", "streams=4"], "hardware": {"cpu": "a CPU"}},
    }


def cells(page: str, system: str) -> list[str]:
    (line,) = (line for line in page.splitlines() if line.startswith(f"| tiny | 4 | {system} |"))
    return line.strip("| ").split(" | ")[3:]


def test_the_table_of_one_process_by_hand() -> None:
    page = markdown([row(ALONE, 2.0, 1), row("half as long", 1.0, 1)])
    assert page.splitlines()[2] == ONE_PROCESS
    tokens_a_second = 4 * sum(range(2, 23)) / (2 * sum(range(1, 22)))
    assert cells(page, ALONE) == ["2.00", "220", "0.200", f"{tokens_a_second:.0f}", "-"]
    assert cells(page, "half as long")[:2] == ["1.00", "110"]
    assert cells(page, "half as long")[-1] == "2.00", "no interval below two processes"
    assert "All are over 21 utterances, seed 7." in page
    assert "A core read 30 to 41 GB/s" in page
    assert page.count("Made by: `sst-bench streams=4`, a CPU") == 1


def test_intervals_of_the_table_are_over_processes() -> None:
    """Percentiles of one process stood in the table, beside which the next one's lay."""
    page = markdown([row(ALONE, 2.0, 5), row("half as long", 1.0, 5)])
    assert "\nTimed in 5 processes" in page
    mean, *_, ratio = cells(page, "half as long")
    # process paces are 1.0 to 1.4: their standard error is 0.0707, Student's t of 4 is 2.78
    assert re.fullmatch(r"1\.20 \[1\.0[12], 1\.4[0-3]\]", mean), mean
    assert ratio == "2.00 [2.00, 2.00]", "paired with the target alone of the same process"


def test_percentiles_take_sixty_utterances() -> None:
    """Of twelve utterances the longest wait stood there as the 95th percentile, as often below."""
    page = markdown([row(ALONE, 2.0, 5, 59)])
    assert " p95 " not in page
    assert "take 60 utterances (limit=60)" in page
    assert "probability 0.95^n, 5 % with 59 and 5 % with 60." in page
    page = markdown([row(ALONE, 1.0, 5, 60)])
    assert page.count(" p95 ") == 3
    _, pace, _, late, *_ = cells(page, ALONE)
    # the geometric mean of 1.0, 1.1, ... 1.4, and their standard error 0.0595 by Student's t of 4
    assert pace == "1.19 [1.01, 1.41]", "all utterances have one pace"
    # the value at (60 + 1 / 3) * 0.95 + 1 / 3 of waits of 10, 20, ... 600 ms, times that mean
    assert late.startswith("687 [")


def test_a_percentile_hangs_on_no_order_of_utterances() -> None:
    """Each process ends its utterances in an order of its own."""
    ordered, mixed = row(ALONE, 2.0, 5, 60), row(ALONE, 2.0, 5, 60)
    for process in mixed["processes"][::2]:
        process.reverse()
    assert cells(markdown([ordered]), ALONE) == cells(markdown([mixed]), ALONE)
