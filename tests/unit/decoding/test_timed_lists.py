"""Utterances of a list that are timed: which, beside whom, and with what else measured."""

import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_lists
from fake_models import watch_systems
from test_engine_parts import speculating
from toy_lists import decoded, made

from speculative_tts.decoding import batch
from speculative_tts.decoding.engine import Engine, Timed
from speculative_tts.decoding.loops.graphs import Graphs
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.records import ListItem, Split
from speculative_tts.runs.sources import engine as module
from speculative_tts.schema.decode import RuntimeConfig, System


@pytest.fixture
def items(tmp_path: Path) -> list[ListItem]:
    return toy_lists.items(tmp_path)


def test_timed_ones_come_first_and_say_what_the_others_do(
    tmp_path: Path, items: list[ListItem]
) -> None:
    """Of six two, evenly spread; how many are timed changes no token."""
    found = made(decoded(tmp_path), items)
    assert list(found)[:2] == ["u0", "u3"]
    assert sorted(found) == [item.id for item in items]
    assert [name for name, one in found.items() if one.lm_seconds is not None] == ["u0", "u3"]
    for timing in (0, None):
        other = made(decoded(tmp_path, timing=timing), items)
        assert {n: one.codes for n, one in other.items()} == {n: o.codes for n, o in found.items()}
        assert all((one.lm_seconds is None) == (timing == 0) for one in other.values())


@pytest.mark.parametrize(("baseline", "order"), [(True, "sttsstts"), (False, "ssss")])
@pytest.mark.parametrize("warmup", [0, 3])
def test_pairs_are_decoded_in_turn_after_a_warm_up(
    tmp_path: Path,
    items: list[ListItem],
    monkeypatch: pytest.MonkeyPatch,
    warmup: int,
    baseline: bool,
    order: str,
) -> None:
    given = {"runtime": RuntimeConfig(warmup=warmup), "baseline": baseline, "instrument": 0}
    source = decoded(tmp_path, speculating(), system=System.speculative, timing=4, **given)
    seen = watch_systems(monkeypatch)
    source.start(items, items)
    list(source.make(items))
    assert "".join(seen) == ("st" if baseline else "s") * warmup + order


def test_steps_are_captured_before_any_clock_starts(
    tmp_path: Path, items: list[ListItem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the target alone were captured within its own seconds, of each size once.

    So were prefills, on an H100 0.1 to 0.4 s of the first utterance of each length: they are
    recorded when they come again, so each is decoded twice.
    """
    captured = []

    def capture(step: Callable[[], None]) -> Callable[[], None]:
        captured.append(step)
        return step

    graphs, made = Graphs(capture), speculating()
    assert made.speculation is not None
    made = replace(made, graphs=graphs)
    monkeypatch.setattr(batch, "SMALLEST", 1)
    long = replace(items[-1], text=" ".join([items[-1].text] * 40))
    given = {"runtime": RuntimeConfig(warmup=1), "instrument": 0, "timing": None}
    source = decoded(tmp_path, made, system=System.speculative, **given)
    rows = [*items[:-1], long]
    source.start(rows, rows)
    before = len(captured)
    assert before >= 4  # two sizes, the system and the target beside it
    list(source.make(rows))
    assert len(captured) == before


def test_some_are_decoded_once_more_with_instruments_and_in_pieces(
    tmp_path: Path, items: list[ListItem]
) -> None:
    source = decoded(
        tmp_path, speculating(), system=System.speculative, timing=3, instrument=2, baseline=False
    )
    found = made(source, items)
    split = {name: one.split for name, one in found.items() if one.split}
    assert list(split) == ["u0", "u2"]  # of u0, u2 and u4, which are timed
    for name, one in split.items():
        counts = found[name].counts
        assert one.per_round is not None
        assert [sum(part) for part in zip(*one.per_round, strict=True)] == [
            counts.drafted,
            counts.accepted,
        ]
        assert sum(one.positions) == counts.accepted + counts.residuals
        assert max(one.tv) < 1e-9  # the rule is exact
        assert one.draft_seconds > 0
        assert one.verify_seconds > 0
        assert one.accept_seconds > 0
    none = decoded(tmp_path, speculating(), instrument=2)
    assert not [one for one in made(none, items).values() if one.split]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_loop_that_clocks_itself_is_timed_once(
    tmp_path: Path, items: list[ListItem], monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Its split is of the time that counts; instruments, in whatever process, say the rest."""
    instrumented = []
    decode, split_of = Engine.decode, Engine.split

    def clocked(self: Engine, system: System, requests: list[batch.Request]) -> Timed:
        made = decode(self, system, requests)
        (one,) = made.outcomes
        return replace(made, outcomes=[replace(one, split=(1.0, 2.0, 3.0))])

    def noted(self: Engine, request: batch.Request, expected: Outcome) -> Split:
        instrumented.append(request.id)
        return split_of(self, request, expected)

    monkeypatch.setattr(Engine, "decode", clocked)
    monkeypatch.setattr(Engine, "split", noted)
    options = {"system": System.speculative, "timing": 3, "instrument": 2, "workers": workers}
    found = made(decoded(tmp_path, speculating(), **options), items)
    assert instrumented == (["u0", "u2"] if workers == 1 else [])
    split = {name: one.split for name, one in found.items() if one.split}
    assert sorted(split) == ["u0", "u2"]
    for one in split.values():
        assert (one.draft_seconds, one.verify_seconds, one.accept_seconds) == (1.0, 2.0, 3.0)
        assert sum(one.positions) > 0


def test_a_chunk_streams_what_is_timed(
    tmp_path: Path, items: list[ListItem], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    class Stream:
        """Stands for a stream: says what it should and keeps what it was asked for."""

        arrivals = "when"

        def __init__(self, *given: Any) -> None:
            asked.append(given)
            self.given = given

        def __iter__(self) -> Any:
            engine, (_, system, request), *_ = self.given
            (self.outcome,) = engine.decode(system, [request]).outcomes
            for _ in range(3):
                gone.append(weakref.ref(wave := np.zeros(1)))
                yield wave
                del wave
                kept.append(sum(one() is not None for one in gone))

    gone: list[Any] = []
    kept: list[int] = []
    monkeypatch.setattr(module, "Stream", Stream)
    monkeypatch.setattr(module, "growing", lambda *given: given)
    source = decoded(tmp_path, timing=1, chunk=7)
    found = made(source, items)
    assert [name for name, one in found.items() if one.arrivals == "when"] == ["u0"]
    ((_, (engine, system, request), prompt, chunk),) = asked
    assert engine is source.engine
    assert (system, request.id, prompt.text, chunk) == (System.target, "u0", "one", 7)
    assert prompt.codes == [1, 2, 1]
    assert kept == [0] * 3  # waves that were heard are let go
