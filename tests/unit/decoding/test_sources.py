"""Sources of a run's audio that decode nothing, and what a run does with any source."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import toy_lists
from toy_lists import N_CODES, RATE, ToyCodec, ToyVoiceCodec

from speculative_tts.codecs.registry import Codec
from speculative_tts.records import DecodeRecord, ListItem
from speculative_tts.runs import run as runs
from speculative_tts.runs.folder import read_records
from speculative_tts.runs.run import DecodeRun, check_audio, finished, of_row, record
from speculative_tts.runs.sources.recordings import RecordedSource
from speculative_tts.runs.sources.swap import SwapSource, swap


@pytest.fixture
def items(tmp_path: Path) -> list[ListItem]:
    """With recordings of 0.1, 0.2 and 0.3: codes 1, 2 and 3."""
    found = []
    for number, item in enumerate(toy_lists.items(tmp_path, 3), 1):
        path = tmp_path / f"{item.id}.wav"
        soundfile.write(path, np.full(8 * number, number / 10), RATE, subtype="FLOAT")
        found.append(replace(item, reference_audio=str(path), seen=number == 2))
    return found


@pytest.mark.parametrize("through", [True, False])
def test_recordings_as_they_are_or_through_the_codec(items: list[ListItem], through: bool) -> None:
    """A record has the codes either way, of several layers the first."""

    class Layered(ToyCodec):
        def encode(self, wave: np.ndarray) -> np.ndarray:
            codes = super().encode(wave)
            return np.stack([codes, codes + 1])

        def decode(self, codes: np.ndarray) -> np.ndarray:
            return super().decode(codes[1])

    for codec, above in ((ToyCodec(), 0.0), (Layered(), 0.1)):
        source = RecordedSource(codec, through, seed=7)
        source.start(items, items)
        (one, _), (second, wave), (_, third) = source.make(items)
        assert (second.codes, second.seed, second.audio_seconds) == ([2] * 4, 7, 16 / RATE)
        assert (second.tokens, second.stop, second.lm_seconds) == (4, "stop_id", 0.0)
        assert (one.seen, second.seen, second.audio) == (False, True, "audio/u1.wav")
        level = 0.2 + above if through else 0.2
        np.testing.assert_allclose(wave, np.full(16, level), atol=1e-6)
        assert (len(third), source.failed, source.facts, source.settings) == (24, {}, {}, None)


def test_a_recording_of_no_code_is_silence(items: list[ListItem], tmp_path: Path) -> None:
    class Deaf(ToyCodec):
        def encode(self, wave: np.ndarray) -> np.ndarray:
            return super().encode(wave)[:0]

    ((none, wave),) = RecordedSource(Deaf(), through=True).make(items[:1])
    assert (none.codes, none.seed) == ([], 0)
    np.testing.assert_array_equal(wave, np.zeros(RATE // 10))
    voiced = RecordedSource(ToyVoiceCodec(), through=False).make(items[:1])
    assert next(voiced)[0].codes == [2] * 2  # as a prompt is encoded


def test_codes_that_a_list_has_are_decoded_as_they_are(items: list[ListItem]) -> None:
    """Without a recording; beside others that are encoded."""
    known = replace(items[0], reference_audio=None, reference_codes=((4, 5),))
    source = RecordedSource(ToyCodec(), through=True)
    source.start([known, items[1]], [known, items[1]])
    (first, wave), (second, _) = source.make([known, items[1]])
    assert (first.codes, second.codes) == ([4, 5], [2] * 4)
    np.testing.assert_allclose(wave, np.repeat([0.4, 0.5], 4), atol=1e-6)
    heard = RecordedSource(ToyCodec(), through=False)
    ((one, wave),) = heard.make([replace(items[0], reference_codes=((4, 5),))])
    assert one.codes == [1] * 2
    np.testing.assert_allclose(wave, np.full(8, 0.1), atol=1e-6)
    layered = ToyCodec(n_layers=2)
    ((_, wave),) = RecordedSource(layered, through=True).make(
        [replace(items[0], reference_codes=((1, 2), (3, 4)))]
    )
    assert layered.decoded[0].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("codes", [(), ((),), ((1,), (2,)), ((1, N_CODES),), ((-1,),)])
def test_codes_of_another_codec_are_told(
    items: list[ListItem], codes: tuple[tuple[int, ...], ...]
) -> None:
    known = replace(items[0], reference_codes=codes)
    with pytest.raises(ValueError, match=rf"^row u0: .* 1 layers of codes below {N_CODES}; give"):
        RecordedSource(ToyCodec(), through=True).start([known], [known])
    torn = replace(items[0], reference_codes=((1, 2), (3,)))
    with pytest.raises(ValueError, match=r"^row u0: .* 2 layers"):
        RecordedSource(ToyCodec(n_layers=2), through=True).start([torn], [torn])
    with pytest.raises(ValueError, match=r"^row u0 has .* hears a voice too; take them out"):
        RecordedSource(ToyVoiceCodec(), through=True).start([known], [known])


@pytest.mark.parametrize(("through", "system"), [(True, "codec"), (False, "reference")])
def test_recordings_that_are_not_there(items: list[ListItem], through: bool, system: str) -> None:
    source = RecordedSource(ToyCodec(), through)
    lacking = [items[0], replace(items[1], reference_audio=None)]
    with pytest.raises(ValueError, match=rf"^u1 has no reference_audio, which system={system} n"):
        source.start(lacking, lacking)
    source.start(lacking, lacking[:1])
    Path(str(items[2].reference_audio)).unlink()
    with pytest.raises(ValueError, match=r"^audio of 1 of 3 rows is missing: u2 \(.*u2.wav\); get"):
        source.start(items, items)
    Path(str(items[2].reference_audio)).write_text("text")
    with pytest.raises(ValueError, match=r"^row u2: .*u2.wav is not readable audio"):
        source.start(items, items)


GROUPS = {
    "own": np.array([0, 0, 1, 2, 2, 2]),
    "group_offsets": np.array([0, 2, 3, 6], np.int32),
    "group_tokens": np.array([0, 1, 2, 3, 4, 5], np.int32),
}


def a_record(item: ListItem, codes: list[int], **columns: Any) -> DecodeRecord:
    return record(item, 9, codes, np.zeros(4, np.float32), ToyCodec(), **columns)


@pytest.mark.parametrize("codec", [ToyCodec(), ToyVoiceCodec()])
def test_a_swapped_list_is_the_other_runs_codes_drawn_again(
    items: list[ListItem], tmp_path: Path, codec: Codec
) -> None:
    codes = [2, 0, 3, 3, 2, 1] * 3
    known = {item.id: a_record(item, codes, stop="max_length") for item in items[:2]}
    voices: Any = toy_lists.voices(tmp_path)
    source = SwapSource(codec, GROUPS, known, {"groups": 3}, None, voices)
    source.start(items, items[:2])
    for item, (made, wave) in zip(items, source.make(items[:2]), strict=False):
        expected = swap(codes, GROUPS, 9, item.id)
        assert (made.id, made.codes, made.seed, made.stop) == (item.id, expected, 9, "max_length")
        assert made.swapped == 12
        prompt = voices[item.prompt_audio][0] if isinstance(codec, ToyVoiceCodec) else 0
        np.testing.assert_allclose(wave, np.repeat(np.array(made.codes) / 10 + float(prompt), 4))
        assert [old for old, new in zip(codes, made.codes, strict=True) if old == 2] == [2] * 6
    assert source.failed == {}
    with pytest.raises(ValueError, match=r"^u2 is not in the run to swap; decode the target over"):
        source.start(items, items)


def test_prompts_of_a_swapped_list_are_needed_where_they_are_heard(
    items: list[ListItem], tmp_path: Path
) -> None:
    known = {item.id: a_record(item, []) for item in items}
    (tmp_path / "b").unlink()
    made: list[Any] = [ToyCodec(), GROUPS, known, {}, None, {}]
    SwapSource(*made).start(items, items)
    with pytest.raises(ValueError, match=r"^audio of 1 of 3 rows is missing: u1 "):
        SwapSource(ToyVoiceCodec(), *made[1:]).start(items, items)


@dataclass
class Source:
    """Makes the ids it is told to, in their order, and breaks down over the others."""

    order: list[str]
    codec: Codec = field(default_factory=ToyCodec)
    failed: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[list[str], list[str]]] = field(default_factory=list)

    def start(self, items: list[ListItem], missing: list[ListItem]) -> None:
        self.asked.append(([one.id for one in items], [one.id for one in missing]))

    def make(self, missing: list[ListItem]) -> Iterator[tuple[DecodeRecord, np.ndarray]]:
        known = {item.id: item for item in missing}
        self.failed |= {
            name: f"{name} broke" for name in sorted(known.keys() - {*self.order})[::-1]
        }
        for name in self.order:
            if name in known:
                yield a_record(known[name], [1]), np.full(RATE, 0.5, np.float32)


def test_a_run_makes_what_is_missing_and_ends_in_the_lists_order(
    items: list[ListItem], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    first: Any = Source(["u2"])
    run = DecodeRun(first, folder)
    run.start(items)
    assert first.asked == [(["u0", "u1", "u2"],) * 2]
    made = run.run(items)
    assert [one.id for one in made] == ["u2"]
    assert run.failed == {"u0": "u0 broke", "u1": "u1 broke"}
    rows = [json.loads(line) for line in (folder / "failed.jsonl").read_text().splitlines()]
    assert rows == [{"id": name, "error": f"{name} broke"} for name in ("u0", "u1")]
    wave, rate = soundfile.read(folder / "audio" / "u2.wav")
    assert (len(wave), rate, wave[0]) == (RATE, RATE, pytest.approx(0.5, abs=1e-4))
    second: Any = Source(["u1", "u0", "u2"])
    again = DecodeRun(second, folder)
    again.start(items)
    assert second.asked == [(["u0", "u1", "u2"], ["u0", "u1"])]
    assert [one.id for one in again.run(items)] == ["u1", "u0"]
    assert list(read_records(folder)) == ["u0", "u1", "u2"]
    assert not (folder / "failed.jsonl").exists()
    (folder / "audio" / "u1.wav").write_text("emptied")
    assert list(finished(folder)) == ["u0", "u2"]
    assert read_records(tmp_path / "none") == {}


def test_a_run_that_is_cut_keeps_what_it_made_and_who_failed(
    items: list[ListItem], tmp_path: Path
) -> None:
    source: Any = Source(["u2", "u1"])
    made = DecodeRun(source, tmp_path / "run").run(items)
    assert next(made).id == "u2"
    assert list(read_records(tmp_path / "run")) == ["u2"]  # on disk already
    made.close()  # type: ignore[attr-defined]
    assert (tmp_path / "run" / "failed.jsonl").read_text() == '{"id": "u0", "error": "u0 broke"}\n'


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a run waits for the disk to hold: `file` is one, else all of a folder."""
    found: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: found.append("file"))
    monkeypatch.setattr(runs, "sync", lambda folder: found.append(folder.name))
    return found


def test_a_run_waits_for_the_disk_once(
    items: list[ListItem], tmp_path: Path, waits: list[str]
) -> None:
    """It did twice an utterance, 9 ms each. Only a power failure takes what was not waited for."""
    made = DecodeRun(Source(["u0", "u1", "u2"]), tmp_path / "run").run(items)
    assert [next(made).id for _ in range(2)] == ["u0", "u1"]
    assert waits == []
    assert [one.id for one in made] == ["u2"]
    assert waits == ["file", "file", "run"]  # records as they grew, in the list's order


def test_audio_cut_by_a_power_failure_is_made_again(items: list[ListItem], tmp_path: Path) -> None:
    """Its header is there, its end is not."""
    folder = tmp_path / "run"
    list(DecodeRun(Source(["u0", "u1"]), folder).run(items))
    audio = folder / "audio" / "u0.wav"
    audio.write_bytes(audio.read_bytes()[:50])
    assert list(finished(folder)) == ["u1"]


def test_a_record_has_all_of_its_item(items: list[ListItem]) -> None:
    wave, item = np.zeros(25, np.float32), items[1]
    assert record(item, 5, [1, 2], wave, ToyCodec(), tokens=7, swapped=2) == DecodeRecord(
        *("u1", "s1", "one two", "yes", item.prompt_audio, item.reference_audio),
        seed=5,
        audio="audio/u1.wav",
        codes=[1, 2],
        tokens=7,
        stop="stop_id",
        audio_seconds=25 / RATE,
        lm_seconds=0.0,
        swapped=2,
        seen=True,
    )


def test_what_is_wrong_is_said_of_its_row(items: list[ListItem]) -> None:
    with pytest.raises(ValueError, match=r"^row u0: too long$"), of_row(items[0]):
        raise ValueError("too long")
    with pytest.raises(KeyError), of_row(items[0]):
        raise KeyError("x")
    check_audio({"u0": __file__})
    check_audio({})
    with pytest.raises(ValueError, match=r"^audio of 2 of 3 rows is missing: b \(/y\); get it, or"):
        check_audio({"a": __file__, "b": "/y", "c": "/z"})
