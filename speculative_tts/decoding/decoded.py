"""What an engine says to a list: batches, paired with the target alone, some with instruments."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from speculative_tts.codecs.audio import Wave, read_wave
from speculative_tts.codecs.registry import Codec
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.run import check_audio, encode_prompt, of_row, record
from speculative_tts.decoding.settings import Settings
from speculative_tts.models.prompt import Prompt
from speculative_tts.records import DecodeRecord, ListItem, Split
from speculative_tts.schema import DecodeConfig, System

Timing = tuple[Outcome, float]  # an utterance and its seconds


class Decoded:
    """Utterances decoded by the system of `config`."""

    def __init__(self, engine: Engine, config: DecodeConfig) -> None:
        self._engine, self._config = engine, config
        self._voices: dict[str, Tensor] = {}
        self._observed: set[str] = set()
        self.failed: dict[str, str] = {}

    @property
    def codec(self) -> Codec:
        """The engine's."""
        return self._engine.codec

    @property
    def settings(self) -> Settings:
        """The sampler's."""
        return self._engine.settings

    @property
    def facts(self) -> Mapping[str, Any]:
        """The engine's."""
        return self._engine.facts

    def start(self, items: list[ListItem], missing: list[ListItem]) -> None:
        """Check texts and prompts, and warm up on the first of them."""
        for item in missing:
            with of_row(item):
                self._engine.target.layout.text_ids(item.text, item.prompt_text)
        check_audio({item.id: item.prompt_audio for item in missing})
        for item in missing:
            with of_row(item):
                self._prompt(item)
        self._observed = {item.id for item in items[: self._config.instrument]}
        for item in missing[: self._config.runtime.warmup]:
            self._engine.decode(self._config.system, [self._request(item)])

    def make(self, items: list[ListItem], number: int) -> Iterator[tuple[DecodeRecord, Wave]]:
        """See `AudioSource`."""
        requests = [self._request(item) for item in items]
        own, baseline = self._decode_paired(requests, swap=number % 2 == 1)
        for index, (item, request) in enumerate(zip(items, requests, strict=True)):
            pair = [made[index] for made in (own, baseline) if made]
            broken = [outcome.failure for outcome, _ in pair if outcome.failure]
            if broken:
                self.failed[item.id] = broken[0]
                continue
            yield self._utterance(item, request, *pair)

    def _utterance(
        self, item: ListItem, request: Request, own: Timing, baseline: Timing | None = None
    ) -> tuple[DecodeRecord, Wave]:
        (outcome, seconds), system = own, self._config.system
        spoken = self._engine.audio(outcome, self._prompt(item))
        observed = item.id in self._observed and system is System.speculative
        made = record(
            item,
            self._config.seed,
            self._engine.codes(outcome),
            spoken.wave,
            self.codec,
            tokens=len(outcome.tokens),
            stop="stop_id" if outcome.stopped else "max_length",
            lm_seconds=seconds,
            nar_seconds=spoken.nar_seconds,
            baseline_tokens=len(baseline[0].tokens) if baseline else None,
            baseline_seconds=baseline[1] if baseline else None,
            split=self._split(request, outcome) if observed else None,
            counts=outcome.counts,
        )
        return made, spoken.wave

    def _decode_paired(
        self, requests: list[Request], *, swap: bool
    ) -> tuple[list[Timing], list[Timing]]:
        """The system and its baseline, in turn the first; a batch shares its seconds equally."""
        systems = [self._config.system]
        if self._config.baseline and self._config.system is not System.target:
            systems.append(System.target)
        results: dict[System, list[Timing]] = {}
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
        """The item for the engine."""
        return self._engine.request(item.id, self._prompt(item), self._config.seed)

    def _prompt(self, item: ListItem) -> Prompt:
        """What the item asks for; a voice is encoded once."""
        name = item.prompt_audio
        if name not in self._voices:
            wave = read_wave(Path(name), self.codec.sample_rate)
            self._voices[name] = encode_prompt(self.codec, wave, name)
        return Prompt(item.text, item.prompt_text, self._voices[name])
