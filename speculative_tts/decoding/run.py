"""One decode run: a system over a test list, a record per utterance, resumable at any moment."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from speculative_tts.codecs.audio import SILENCE, Wave, read_wave, write_wave
from speculative_tts.codecs.registry import VoiceCodec, decode_voice, encode_voice, silence
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.swap import swap
from speculative_tts.records import (
    Appender,
    DecodeRecord,
    ListItem,
    Split,
    read_rows,
    to_row,
    write_jsonl,
)
from speculative_tts.schema import DecodeConfig, System

RECORDS = "records.jsonl"
FAILED = "failed.jsonl"  # utterances without a record because a model broke down, and why
WITHOUT_MODEL = (System.codec, System.reference, System.swap)


class DecodeRun:
    """Decodes what is missing in `folder` and yields each new record once it is on disk.

    `source` has the records, by utterance id, that system=swap starts from. `failed` says, by
    utterance id, why one has no record: the others are decoded, a later run tries it again.
    """

    def __init__(
        self,
        engine: Engine,
        config: DecodeConfig,
        folder: Path,
        source: Mapping[str, DecodeRecord] | None = None,
    ) -> None:
        self._engine = engine
        self._config = config
        self._folder = folder
        self._source = source or {}
        self._prompts: dict[str, Tensor] = {}
        self.failed: dict[str, str] = {}

    def run(self, items: list[ListItem]) -> Iterator[DecodeRecord]:
        """Decode the items that have no record yet, in batches of config.batch_size, in order."""
        done = finished(self._folder)
        (self._folder / FAILED).unlink(missing_ok=True)
        missing = [item for item in items if item.id not in done]
        if not missing:
            return
        self._check(missing)
        observed = {item.id for item in items[: self._config.instrument]}
        size = self._config.batch_size
        self._warm_up(missing)
        appender = Appender(self._folder / RECORDS)
        try:
            for begin in range(0, len(missing), size):
                batch = missing[begin : begin + size]
                for record in self._records(batch, begin // size, observed):
                    appender.append(to_row(record))
                    yield record
        finally:
            appender.close()
            if self.failed:
                rows = ({"id": id_, "error": why} for id_, why in self.failed.items())
                write_jsonl(self._folder / FAILED, rows)

    def _check(self, items: list[ListItem]) -> None:
        """Find what is wrong with the list before minutes of work."""
        if self._config.system is System.swap:
            lacking = [item.id for item in items if item.id not in self._source]
            if lacking:
                raise ValueError(
                    f"{lacking[0]} is not in the run to swap; decode the target over this list"
                )
            if isinstance(self._engine.codec, VoiceCodec):
                _check_audio({item.id: item.prompt_audio for item in items})
            return
        if self._config.system in WITHOUT_MODEL:
            lacking = [item.id for item in items if item.reference_audio is None]
            if lacking:
                raise ValueError(
                    f"{lacking[0]} has no reference_audio, "
                    f"which system={self._config.system.name} needs"
                )
            _check_audio({item.id: str(item.reference_audio) for item in items})
            return
        for item in items:
            self._engine.target.layout.text_ids(item.text, item.prompt_text)
        _check_audio({item.id: item.prompt_audio for item in items})

    def _warm_up(self, items: list[ListItem]) -> None:
        if self._config.system not in WITHOUT_MODEL:
            for item in items[: self._config.runtime.warmup]:
                self._engine.decode(self._config.system, [self._request(item)])

    def _records(
        self, items: list[ListItem], number: int, observed: set[str]
    ) -> list[DecodeRecord]:
        if self._config.system is System.swap:
            return [self._swapped(item) for item in items]
        if self._config.system in WITHOUT_MODEL:
            return [self._without_model(item) for item in items]
        requests = [self._request(item) for item in items]
        own, baseline = self._decode_paired(requests, swap=number % 2 == 1)
        records = []
        for index, (item, request) in enumerate(zip(items, requests, strict=True)):
            outcome, seconds = own[index]
            broken = [made[index][0].failure for made in (own, baseline) if made]
            if why := next(filter(None, broken), None):
                self.failed[item.id] = why
                continue
            prompt = self._prompts[item.prompt_audio]
            spoken = self._engine.audio(outcome, item.text, item.prompt_text, prompt)
            record = self._record(item, outcome, seconds, spoken.wave)
            record = dataclasses.replace(record, nar_seconds=spoken.nar_seconds)
            if baseline:
                record = dataclasses.replace(
                    record,
                    baseline_tokens=len(baseline[index][0].tokens),
                    baseline_seconds=baseline[index][1],
                )
            if item.id in observed and self._config.system is System.speculative:
                record = dataclasses.replace(record, split=self._split(request, outcome))
            records.append(record)
        return records

    def _decode_paired(
        self, requests: list[Request], *, swap: bool
    ) -> tuple[list[tuple[Outcome, float]], list[tuple[Outcome, float]]]:
        """The system and its baseline, in turn the first; a batch shares its seconds equally."""
        systems = [self._config.system]
        if self._config.baseline and self._config.system is not System.target:
            systems.append(System.target)
        results: dict[System, list[tuple[Outcome, float]]] = {}
        for system in reversed(systems) if swap else systems:
            timed = self._engine.decode(system, requests)
            results[system] = [
                (outcome, timed.seconds / len(requests)) for outcome in timed.outcomes
            ]
        return results[systems[0]], results[systems[1]] if len(systems) > 1 else []

    def _split(self, request: Request, expected: Outcome) -> Split:
        """Decode once more with instruments on: same uniforms, hence the same tokens."""
        watch = self._engine.instruments()
        timed = self._engine.decode(System.speculative, [request], watch)
        if self._config.batch_size == 1:
            assert timed.outcomes[0].tokens == expected.tokens, "instruments changed the tokens"
        return Split(
            draft_seconds=watch.seconds["draft"],
            verify_seconds=watch.seconds["verify"],
            accept_seconds=watch.seconds["accept"],
            positions=watch.positions,
            **watch.sums,
        )

    def _request(self, item: ListItem) -> Request:
        codes = self._prompt(item)
        return self._engine.request(item.id, item.text, item.prompt_text, codes, self._config.seed)

    def _prompt(self, item: ListItem) -> Tensor:
        """Codes of the voice prompt, made once."""
        if item.prompt_audio not in self._prompts:
            wave = read_wave(Path(item.prompt_audio), self._engine.codec.sample_rate)
            self._prompts[item.prompt_audio] = encode_prompt(self._engine, wave, item.prompt_audio)
        return self._prompts[item.prompt_audio]

    def _without_model(self, item: ListItem) -> DecodeRecord:
        """The reference recording itself, or through the codec: bounds that no model can pass."""
        codec = self._engine.codec
        wave = read_wave(Path(str(item.reference_audio)), codec.sample_rate)
        codes = encode_voice(codec, wave)
        if self._config.system is System.codec:
            wave = codec.decode(codes) if codes.size else silence(codec)
        first = np.atleast_2d(codes)[0]
        return self._record(item, Outcome(first.tolist(), stopped=False), 0.0, wave)

    def _swapped(self, item: ListItem) -> DecodeRecord:
        """The target's utterance, each code drawn again from its group."""
        assert self._engine.groups is not None, "checked by the command"
        source = self._source[item.id]
        swapped = swap(source.codes, self._engine.groups.arrays, source.seed, item.id)
        codec, codes = self._engine.codec, np.array(swapped.codes, dtype=np.int64)
        prompt = self._prompt(item).numpy() if isinstance(codec, VoiceCodec) else codes[:0]
        wave = decode_voice(codec, codes, prompt)
        outcome = Outcome(swapped.codes, stopped=False)
        return dataclasses.replace(
            self._record(item, outcome, 0.0, wave),
            seed=source.seed,
            stop=source.stop,
            swapped=swapped.swapped,
            changed=swapped.changed,
        )

    def _record(self, item: ListItem, outcome: Outcome, seconds: float, wave: Wave) -> DecodeRecord:
        audio = f"audio/{item.id}.wav"
        write_wave(self._folder / audio, wave, self._engine.codec.sample_rate)
        return DecodeRecord(
            id=item.id,
            speaker=item.speaker,
            text=item.text,
            prompt_text=item.prompt_text,
            prompt_audio=item.prompt_audio,
            reference_audio=item.reference_audio,
            seed=self._config.seed,
            audio=audio,
            codes=self._engine.codes(outcome),
            tokens=len(outcome.tokens),
            stop="stop_id"
            if outcome.stopped or self._config.system in WITHOUT_MODEL
            else "max_length",
            audio_seconds=len(wave) / self._engine.codec.sample_rate,
            lm_seconds=seconds,
            rounds=outcome.rounds,
            drafted=outcome.drafted,
            accepted=outcome.accepted,
            drafted_per_position=outcome.drafted_per_position,
            accepted_per_position=outcome.accepted_per_position,
            residuals=outcome.residuals,
            bonuses=outcome.bonuses,
            residual_fallbacks=outcome.residual_fallbacks,
            passes=outcome.passes,
            unverified=outcome.unverified,
            dead_blocks=outcome.dead_blocks,
            seen=item.seen,
        )


def _check_audio(files: Mapping[str, str]) -> None:
    """ValueError when files, by the row that names them, are not there."""
    absent = [name for name, file in files.items() if not Path(file).is_file()]
    if absent:
        raise ValueError(
            f"audio of {len(absent)} of {len(files)} rows is missing: {absent[0]} "
            f"({files[absent[0]]}); get it, or take those rows out of the list"
        )


def read_records(folder: Path) -> dict[str, DecodeRecord]:
    """Records of a run folder by utterance id; empty when it has none."""
    path = folder / RECORDS
    rows = read_rows(path, DecodeRecord) if path.is_file() else iter(())
    return {row.id: row for row in rows}


def finished(folder: Path) -> dict[str, DecodeRecord]:
    """Records of a run folder whose audio is there too, by utterance id."""
    records = read_records(folder).items()
    return {name: record for name, record in records if (folder / record.audio).is_file()}


def encode_prompt(engine: Engine, wave: Wave, name: str) -> Tensor:
    """Speech codes of a voice prompt, int64 [tokens] or, with layers, [layers, tokens].

    Raises ValueError for silence, and below one token.
    """
    if len(wave) and float(np.abs(wave).max()) < SILENCE:
        raise ValueError(f"{name} is silent: it has no voice to follow; give 2 to 3 s of speech")
    codes = np.asarray(encode_voice(engine.codec, wave))
    if codes.shape[-1] == 0:
        seconds = len(wave) / engine.codec.sample_rate
        raise ValueError(
            f"{name} is {seconds:.2f} s long, below one speech token; give 2 to 3 s of speech"
        )
    return torch.from_numpy(codes.astype(np.int64))
