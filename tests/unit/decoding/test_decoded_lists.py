"""A list decoded: what a record says, who fails and why, and what is kept in memory."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import toy_lists
from test_engine_parts import speculating
from toy_lists import RATE, STOP, decoded, made

from speculative_tts.decoding import batch
from speculative_tts.decoding.engine import Engine, Spoken, Timed
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.records import Counts, DecodeRecord, ListItem
from speculative_tts.runs.sources import engine as module
from speculative_tts.schema.common import Device
from speculative_tts.schema.decode import RuntimeConfig, System


@pytest.fixture
def items(tmp_path: Path) -> list[ListItem]:
    return toy_lists.items(tmp_path)


def test_a_record_is_what_was_said(
    tmp_path: Path, items: list[ListItem], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Counts(rounds=2, residuals=1)
    said = Outcome([1, 2, STOP], stopped=True, counts=counts)
    cut = replace(said, tokens=[1, 2], stopped=False)
    outcomes = {System.target: cut, System.speculative: said}
    monkeypatch.setattr(
        Engine,
        "decode",
        lambda _, system, requests: Timed([outcomes[system]], 4.0 + len(system.name)),
    )
    spoken = Spoken(np.ones(50, np.float32), 1.0, flow_seconds=2.0, nar_seconds=3.0)
    monkeypatch.setattr(Engine, "audio", lambda *_: spoken)
    source = decoded(tmp_path, system=System.speculative, timing=1, instrument=0)
    monkeypatch.setattr(source, "_timed", {"u1": False})
    ((record, wave),) = list(source.make(items[1:2]))
    assert wave is spoken.wave
    assert record == DecodeRecord(
        *("u1", "s1", "one two", "yes", items[1].prompt_audio, None),
        seed=3,
        audio="audio/u1.wav",
        codes=[1, 2],
        tokens=3,
        stop="stop_id",
        audio_seconds=50 / RATE,
        lm_seconds=15.0,
        counts=counts,
        baseline_tokens=2,
        baseline_seconds=10.0,
        nar_seconds=3.0,
        codec_seconds=1.0,
        flow_seconds=2.0,
    )
    alone = decoded(tmp_path, system=System.target)
    monkeypatch.setattr(alone, "_timed", {"u1": False})
    ((record, _),) = list(alone.make(items[1:2]))
    assert (record.tokens, record.stop, record.lm_seconds) == (2, "max_length", 10.0)
    assert (record.baseline_tokens, record.baseline_seconds) == (None, None)


def broken(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Some utterances end without a law, decoded alone or together."""
    decode, stream = Engine.decode, Engine.stream

    def failing(one: str, outcome: Outcome) -> Outcome:
        return replace(outcome, failure=f"{one}: no law") if one in names else outcome

    def alone(self: Engine, system: System, requests: list[Any], *rest: Any) -> Timed:
        found = decode(self, system, requests, *rest)
        ids = [request.id for request in requests]
        return Timed([failing(*one) for one in zip(ids, found.outcomes, strict=True)], 1.0)

    monkeypatch.setattr(Engine, "decode", alone)
    monkeypatch.setattr(
        Engine,
        "stream",
        lambda *given: ((one, failing(one.id, out)) for one, out in stream(*given)),
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_what_breaks_down_is_told_and_the_others_go_on(
    tmp_path: Path, items: list[ListItem], monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Among the timed u0, among the others u4; a broken one is not kept for another run."""
    broken(monkeypatch, "u0", "u4")
    source = decoded(tmp_path, workers=workers)
    found = made(source, items)
    assert sorted(found) == ["u1", "u2", "u3", "u5"]
    assert source.failed == {"u0": "u0: no law", "u4": "u4: no law"}


def test_mistakes_of_a_list_name_its_row(tmp_path: Path, items: list[ListItem]) -> None:
    bad = [*items[:2], replace(items[2], text="silent"), *items[3:]]
    with pytest.raises(ValueError, match=r"^row u2: unknown words: silent"):
        decoded(tmp_path).start(bad, bad)
    decoded(tmp_path).start(bad, bad[:2])  # what is made already is not looked at
    odd = [replace(items[0], prompt_text="silent")]
    with pytest.raises(ValueError, match=r"^row u0: unknown words: silent"):
        decoded(tmp_path).start(odd, odd)
    (tmp_path / "b").unlink()
    with pytest.raises(ValueError, match=r"^audio of 3 of 6 rows is missing: u1 \(.*/b\); get it"):
        decoded(tmp_path).start(items, items)


def test_tokens_of_the_target_are_decoded_once(
    tmp_path: Path, items: list[ListItem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of uncached find those of the target; a timed one is decoded anew."""
    asked: list[tuple[System, list[str], int | None]] = []
    stream = Engine.stream

    def noted(self: Engine, system: System, requests: list[Any], size: int | None) -> Any:
        asked.append((system, [one.id for one in requests], size))
        return stream(self, system, requests, size)

    monkeypatch.setattr(Engine, "stream", noted)
    first = made(decoded(tmp_path, batch_size=2, timing=1), items)
    others = [item.id for item in items[1:]]
    assert asked == [(System.target, others, 2)]
    second = made(decoded(tmp_path, system=System.uncached, timing=0), items)
    assert asked[1:] == [(System.target, ["u0"], None)]
    assert {n: one.codes for n, one in second.items()} == {n: one.codes for n, one in first.items()}
    third = made(decoded(tmp_path, system=System.draft, timing=0, batch_size=5), items)
    assert asked[2:] == [(System.draft, [item.id for item in items], 5)]
    assert [one.codes for one in third.values()] != [one.codes for one in first.values()]


@pytest.mark.parametrize("system", [System.target, System.draft])
def test_several_decode_what_is_not_timed(
    tmp_path: Path, items: list[ListItem], monkeypatch: pytest.MonkeyPatch, system: System
) -> None:
    """With the same tokens; more of them than utterances are no more than utterances."""
    here: list[str] = []
    monkeypatch.setattr(module, "record", _noted(module.record, here))
    alone = made(decoded(tmp_path, system=system, seed=5), items)
    assert len(here) == 6
    for workers in (2, 9):
        here.clear()
        for known in tmp_path.glob("target-*"):
            shutil.rmtree(known)
        shared = decoded(tmp_path, system=system, workers=workers, seed=5)
        found = made(shared, items)
        assert here == []  # nor is the audio of the timed ones made here
        assert {n: one.codes for n, one in found.items()} == {
            n: one.codes for n, one in alone.items()
        }
    gpu = RuntimeConfig(device=Device.cuda)
    with pytest.raises(ValueError, match=r"^workers=2 are copies of this process.* batch_size$"):
        decoded(tmp_path, workers=2, runtime=gpu).start(items, items)


def _noted(function: Callable[..., Any], ids: list[str]) -> Callable[..., Any]:
    """Return the function, which notes its first argument's id if this process calls it."""

    def noting(item: ListItem, *given: Any, **named: Any) -> Any:
        ids.append(item.id)
        return function(item, *given, **named)

    return noting


def test_prompts_are_in_memory_a_chunk_at_a_time(
    tmp_path: Path, items: list[ListItem], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 4)
    asked: list[int] = []
    stream = Engine.stream
    monkeypatch.setattr(
        Engine, "stream", lambda *given: asked.append(len(given[2])) or stream(*given)
    )
    found = made(decoded(tmp_path, timing=0), items)
    assert (asked, len(found)) == ([4, 2], 6)


def test_a_probe_decodes_as_the_run_would(
    tmp_path: Path, items: list[ListItem], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = decoded(tmp_path, batch_size=4)
    found = made(source, items)
    sizes, stream = [], Engine.stream
    monkeypatch.setattr(Engine, "stream", lambda *given: sizes.append(given[3]) or stream(*given))
    together = source.together(items)
    assert {item.id: out.tokens[: len(found[item.id].codes)] for item, out in together} == {
        name: one.codes for name, one in found.items()
    }
    item, outcome = together[0]
    assert set(source.alone(item)) == {System.target}
    assert source.alone(item)[System.target].outcomes == [outcome]
    assert len(source.spoken(item, outcome).wave) == 4 * len(found[item.id].codes)
    assert [source.is_timed(one) for one in items] == [True, False, False, True, False, False]
    assert source.codec is source.engine.codec
    assert source.settings is source.engine.sampling
    assert source.facts is source.engine.facts
    assert sizes == [4]
    pair = decoded(tmp_path, speculating(), system=System.speculative)
    assert list(pair.alone(item)) == [System.speculative, System.target]


def test_a_row_that_is_too_long_is_named_before_any_work(
    tmp_path: Path, items: list[ListItem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the list in the middle, and nobody knew which it was."""
    made_by, longest = toy_lists.ToyLM.cache, 14

    def cache(self: toy_lists.ToyLM, batch: int, capacity: int) -> torch.Tensor:
        if capacity > longest:
            raise ValueError(f"{capacity} positions exceed the model's {longest}")
        return made_by(self, batch, capacity)

    monkeypatch.setattr(toy_lists.ToyLM, "cache", cache)
    with pytest.raises(ValueError, match=r"^row u2: 24 positions exceed the model's 14$"):
        decoded(tmp_path).start(items, items)


def test_a_prompt_is_encoded_once_an_utterance(
    tmp_path: Path, items: list[ListItem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was up to five times: sized, warmed up, timed, taken apart, and decoded in pieces."""
    asked: Counter[str] = Counter()
    request = Engine.request

    def counted(self: Engine, id_: str, *given: Any) -> batch.Request:
        asked[id_] += 1
        return request(self, id_, *given)

    monkeypatch.setattr(Engine, "request", counted)
    source = decoded(tmp_path, speculating(), system=System.speculative, timing=2, instrument=2)
    made(source, items)
    assert asked == {item.id: 1 for item in items}
    monkeypatch.setattr(module, "CHUNK", 1)  # longer lists are not held in memory
    made(decoded(tmp_path, speculating(), system=System.speculative, timing=2), items)
    assert asked["u5"] > 2
