"""One decode run: audio of a source over a list, a record per utterance, resumable any time."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from speculative_tts.assets import named
from speculative_tts.codecs.audio import Wave, readable, wav_bytes
from speculative_tts.codecs.registry import Codec
from speculative_tts.files import sync, write_atomic
from speculative_tts.records import Appender, DecodeRecord, ListItem, to_row, write_jsonl
from speculative_tts.runs.folder import FAILED, RECORDS, audio_name, read_records
from speculative_tts.schema.decode import SamplingConfig, System


class AudioSource(Protocol):
    """A source of a run's audio: an engine, the recordings, another run's swapped codes."""

    @property
    def codec(self) -> Codec:
        """The codec that makes the audio."""

    @property
    def settings(self) -> SamplingConfig | None:
        """The sampler's, with nothing left open; None where nothing is sampled."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Caches and heads that the audio rests on, for provenance."""

    @property
    def failed(self) -> dict[str, str]:
        """Why an utterance that was asked for was not made, by id."""

    def start(self, items: list[ListItem], missing: list[ListItem]) -> None:
        """Raise ValueError, before any work, for a list that cannot be made; `missing` will be."""

    def make(self, missing: list[ListItem]) -> Iterator[tuple[DecodeRecord, Wave]]:
        """Yield the utterances that could be made, in any order."""


PLACE = "speculative_tts.runs.sources"
SOURCES = dict.fromkeys(System, f"{PLACE}.engine:build") | {
    System.codec: f"{PLACE}.recordings:build",
    System.reference: f"{PLACE}.recordings:build",
    System.swap: f"{PLACE}.swap:build",
}
"""The function of a run's settings that builds the source of its audio, by system."""


class DecodeRun:
    """Makes what is missing in `folder` and yields each new record once a kill cannot take it.

    Waves and records are not waited for one by one: once `run` ends, no power failure takes them
    either, and one before that costs the utterances it took, which are made again.
    """

    def __init__(self, source: AudioSource, folder: Path) -> None:
        self._source, self._folder = source, folder

    def start(self, items: list[ListItem]) -> None:
        """Raise ValueError, before the folder is made, for what is wrong with items to be made."""
        self._source.start(items, self._missing(items))

    def run(self, items: list[ListItem]) -> Iterator[DecodeRecord]:
        """Make the items that have no record yet; `start` comes before.

        At the end records, and what failed, are in the list's order, not in that of their making.
        """
        (self._folder / FAILED).unlink(missing_ok=True)
        appender = Appender(self._folder / RECORDS)
        try:
            for record, wave in self._source.make(self._missing(items)):
                audio = wav_bytes(wave, self._source.codec.sample_rate)
                write_atomic(self._folder / record.audio, audio, synced=False)
                appender.append(to_row(record))
                yield record
        finally:
            appender.close()
            if self.failed:
                ids = [item.id for item in items if item.id in self.failed]
                rows = ({"id": id_, "error": self.failed[id_]} for id_ in ids)
                write_jsonl(self._folder / FAILED, rows)
        made = read_records(self._folder)
        rows = (to_row(made[item.id]) for item in items if item.id in made)
        write_jsonl(self._folder / RECORDS, rows)
        sync(self._folder)

    def _missing(self, items: list[ListItem]) -> list[ListItem]:
        done = finished(self._folder)
        return [item for item in items if item.id not in done]

    @property
    def failed(self) -> dict[str, str]:
        """Why an utterance has no record, by id; the others have one, a later run tries again."""
        return self._source.failed


def record(
    item: ListItem, seed: int, codes: list[int], wave: Wave, codec: Codec, **columns: Any
) -> DecodeRecord:
    """Return a record of codes and their audio; `columns` hold what else is known.

    Recordings that ship are named as such: they lie elsewhere on another machine.
    """
    usual: dict[str, Any] = {"tokens": len(codes), "stop": "stop_id", "lm_seconds": 0.0}
    return DecodeRecord(
        id=item.id,
        speaker=item.speaker,
        text=item.text,
        prompt_text=item.prompt_text,
        prompt_audio=named(item.prompt_audio),
        reference_audio=item.reference_audio and named(item.reference_audio),
        seen=item.seen,
        seed=seed,
        audio=audio_name(item.id),
        codes=codes,
        audio_seconds=len(wave) / codec.sample_rate,
        **usual | columns,
    )


@contextmanager
def of_row(item: ListItem) -> Iterator[None]:
    """Name the row of a list in a ValueError about it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"row {item.id}: {error}") from error


def check_audio(files: Mapping[str, str]) -> None:
    """Raise ValueError if files, by the row that names them, are not there."""
    absent = [name for name, file in files.items() if not Path(file).is_file()]
    if absent:
        raise ValueError(
            f"audio of {len(absent)} of {len(files)} rows is missing: {absent[0]} "
            f"({files[absent[0]]}); get it, or take those rows out of the list"
        )


def finished(folder: Path) -> dict[str, DecodeRecord]:
    """Return a run folder's records, by utterance id, whose audio is there and whole."""
    return {
        name: record
        for name, record in read_records(folder).items()
        if readable(folder / record.audio, record.audio_seconds)
    }
