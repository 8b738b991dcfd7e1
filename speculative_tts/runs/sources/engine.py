"""Decode a test list: some utterances timed beside the target alone, the rest batched.

Each utterance is decoded once. Those that are timed (`timing`, evenly spread over the list) are
decoded alone, next to the target alone, and have seconds. Counts and audio are of all.

They are timed in several processes if asked for, since a process keeps its luck with memory for all
its utterances. Each is a new one, loads its own models, and decodes every utterance by the system
and by the target alone in turn. They follow each other; the memory's speed is measured in each.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from speculative_tts.codecs.audio import UnfitWaveError, Wave
from speculative_tts.decoding.batch import Request, Size
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine, Spoken, Timed
from speculative_tts.decoding.model_cache import process_cache
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.streaming import Stream, growing
from speculative_tts.models.gpu.prefill import bucket
from speculative_tts.models.prompt import Prompt
from speculative_tts.provenance import content_hash
from speculative_tts.records import Arrivals, Clock, DecodeRecord, ListItem, spread
from speculative_tts.runs.clocks import Clocks, clock_of, means, memory_speed
from speculative_tts.runs.folder import shared_caches
from speculative_tts.runs.run import check_audio, of_row, record
from speculative_tts.runs.target_tokens import TargetTokens, made_by
from speculative_tts.runs.voices import Voices, heard, prompt_of
from speculative_tts.schema.common import Device
from speculative_tts.schema.decode import READS, DecodeConfig, System
from speculative_tts.workers import afresh, copies

# Systems without a cache, and those whose tokens are the same.
CACHED = {System.uncached: System.target, System.uncached_heads: System.multi_token}
Made = tuple[DecodeRecord, Wave]
SIGHTS = 2  # of a captured size before a clock starts: a prefill is recorded when it comes again
CHUNK = 256  # utterances whose prompts are in memory at once


@dataclass(frozen=True)
class Timing:
    """An utterance that was decoded alone, its audio, and columns of its record from clocks."""

    item: ListItem
    outcome: Outcome
    spoken: Spoken
    times: dict[str, Any]


@dataclass(frozen=True)
class Unmade:
    """An utterance that a model broke down on, by id, and why."""

    id: str
    why: str


Share = tuple[Iterable[Timing], list[ListItem]]  # of a worker: timed ones and others


def build(config: DecodeConfig) -> "EngineSource":
    """Return the source of a run's audio that an engine decodes."""
    engine = Builder(config, process_cache(config.runtime.device.value)).engine(config.system)
    shared = shared_caches(config.out, config.cache)
    voices = Voices(engine.codec, content_hash(Path(config.codec.path)), shared)
    known = TargetTokens(shared, made_by(engine.sampling, config.target, config.runtime))
    return EngineSource(engine, config, voices, known)


class EngineSource:
    """Utterances decoded by the system of `config`."""

    def __init__(
        self, engine: Engine, config: DecodeConfig, voices: Voices, alone: TargetTokens
    ) -> None:
        self.engine, self._config, self._voices, self._alone = engine, config, voices, alone
        self.codec, self.settings, self.facts = engine.codec, engine.sampling, engine.facts
        self._timed: dict[str, bool] = {}  # by id: with instruments too
        self.failed: dict[str, str] = {}
        self._requests: dict[str, Request] = {}

    def start(self, items: list[ListItem], missing: list[ListItem]) -> None:
        """Check texts, prompts and their lengths, and warm up on the first that are timed.

        An utterance whose prompt nobody can follow fails; where that is all there are, ValueError.
        """
        layout = self.engine.target.layout
        for item in missing:
            with of_row(item):
                layout.text_ids(item.text, item.prompt_text)
        recordings = {item.id: heard(item, layout) for item in missing}
        check_audio({id_: path for id_, path in recordings.items() if path})
        self.follow(missing)
        if len(self.failed) == len(items):
            raise ValueError(next(iter(self.failed.values())))
        config = self._config
        self._require_room([item for item in missing if item.id not in self.failed])
        if config.workers > 1 and config.runtime.device is not Device.cpu:
            raise ValueError(
                f"workers={config.workers} are copies of this process, which cannot share its GPU; "
                "leave workers=1 and give batch_size"
            )
        timed = spread(items, config.timing) if config.timing != 0 else []
        instrument = config.instrument if config.system is System.speculative else 0
        self._timed = {item.id: n < instrument for n, item in enumerate(timed)}
        for item in self._warming(self._kept(missing, timed=True)):
            for _ in range(1 if self._captured(item) is None else SIGHTS):
                warm = self._paired(self._request(item), swap=False)
            self.engine.audio(warm[config.system].outcomes[0], self.prompt(item))

    def make(self, missing: list[ListItem]) -> Iterator[tuple[DecodeRecord, Wave]]:
        """See `AudioSource`; by several workers nothing before all that is timed has its times."""
        timings = self._timings(self._kept(missing, timed=True))
        others, number = self._kept(missing, timed=False), self._config.workers
        shares: list[Share] = [(timings, others)]
        if number > 1:
            timed = [*timings]
            dealt = ((timed[first::number], others[first::number]) for first in range(number))
            shares = [share for share in dealt if any(share)]
        for made in copies(self._made, shares):
            if isinstance(made, Unmade):
                self.failed[made.id] = made.why
            else:
                yield made

    def follow(self, items: list[ListItem]) -> None:
        """Encode their prompts, and note those items as failed whose has no voice to follow."""
        for item in items:
            with of_row(item):
                try:
                    self.prompt(item)
                except UnfitWaveError as error:
                    self.failed[item.id] = f"row {item.id}: {error}"

    def _require_room(self, items: list[ListItem]) -> None:
        """Raise ValueError that names the row that may become longest, if that is too long."""
        longest, size = None, 0
        for item in items:
            with of_row(item):
                positions = self.engine.positions(self._config.system, self._request(item))
            if positions > size:
                longest, size = item, positions
        if longest is not None:
            with of_row(longest):
                self.engine.require_room(size)

    def is_timed(self, item: ListItem) -> bool:
        """True if `start` chose it to be timed."""
        return item.id in self._timed

    def together(self, items: list[ListItem]) -> list[tuple[ListItem, Outcome]]:
        """Decode utterances together and keep nothing of them (a probe of `estimate`)."""
        known = {item.id: item for item in items}
        requests = [self._request(item) for item in items]
        system, size = self._config.system, self._config.batch_size
        found = self.engine.stream(CACHED.get(system, system), requests, size)
        return [(known[request.id], outcome) for request, outcome in found]

    def alone(self, item: ListItem) -> dict[System, Timed]:
        """Decode one utterance by the system, and by the target alone if that is asked for."""
        return self._paired(self._request(item), swap=False)

    def spoken(self, item: ListItem, outcome: Outcome) -> Spoken:
        """Return the audio of an outcome."""
        return self.engine.audio(outcome, self.prompt(item))

    def _kept(self, items: list[ListItem], *, timed: bool) -> list[ListItem]:
        fit = (item for item in items if item.id not in self.failed)
        return [item for item in fit if self.is_timed(item) is timed]

    def _warming(self, items: list[ListItem]) -> list[ListItem]:
        """Return utterances to warm up on: `runtime.warmup`, and one of each captured size."""
        warmup = self._config.runtime.warmup
        firsts = {self._captured(item): item for item in reversed(items)} if warmup else {}
        return list({item.id: item for item in (*items[:warmup], *firsts.values())}.values())

    def _captured(self, item: ListItem) -> tuple[Size | int | None, ...] | None:
        """Return the sizes that steps, one for each system, and the prefill are captured for."""
        request = self._request(item)
        sizes = [self.engine.bucket(one, request) for one in self._systems]
        return (*sizes, bucket(len(request.prompt), 1)) if any(sizes) else None

    def _timings(self, items: list[ListItem]) -> Iterator[Timing]:
        """Decode each alone and beside the target, for which the machine has to be quiet."""
        others = self._elsewhere(items) if items else []
        memory = memory_speed() if others else None
        for number, item in enumerate(items):
            decoded = self._clock(item, number)
            if decoded is not None:
                clock, spoken = self._clock_of(item, decoded, memory)
                known = [clocks[item.id] for clocks in others if item.id in clocks]
                yield self._timed_one(item, decoded, spoken, [clock, *known])

    def _elsewhere(self, items: list[ListItem]) -> list[Clocks]:
        """Return clocks of the utterances from each of `processes` processes but this one."""
        alone = replace(self._config, processes=1, workers=1, instrument=0, timing=None)
        return list(afresh(_clocks, [(alone, items)] * (self._config.processes - 1)))

    def clocks(self, items: list[ListItem]) -> Clocks:
        """Return the seconds of each utterance in this process."""
        memory, found = memory_speed(), Clocks()
        for number, item in enumerate(items):
            if decoded := self._clock(item, number):
                found[item.id], _ = self._clock_of(item, decoded, memory)
        return found

    def _made(self, share: Share) -> Iterator[Made | Unmade]:
        """Yield records and audio, once every time that anybody reads is taken."""
        timings, others = share
        for one in timings:
            times = one.times
            if self._timed[one.item.id] and "split" not in times:
                times["split"] = self.engine.split(self._request(one.item), one.outcome)
            yield self._utterance(one.item, one.outcome, one.spoken, **times)
        yield from self._untimed(others)

    def _untimed(self, items: list[ListItem]) -> Iterator[Made | Unmade]:
        """Decode utterances in batches."""
        for begin in range(0, len(items), CHUNK):
            chunk = {item.id: item for item in items[begin : begin + CHUNK]}
            for request, outcome in self._together([self._request(one) for one in chunk.values()]):
                if outcome.failure:
                    yield Unmade(request.id, outcome.failure)
                else:
                    item = chunk[request.id]
                    yield self._utterance(item, outcome, self.spoken(item, outcome))

    def _together(self, requests: list[Request]) -> Iterator[tuple[Request, Outcome]]:
        """Decode utterances that nobody times; those of the target alone may be stored."""
        engine, size = self.engine, self._config.batch_size
        system = CACHED.get(self._config.system, self._config.system)
        if system is not System.target:
            return engine.stream(system, requests, size)
        found = self._alone.outcomes(requests, lambda new: engine.stream(system, new, size))
        return iter(list(found))  # kept before any audio is made

    def _paired(self, request: Request, *, swap: bool) -> dict[System, Timed]:
        """Decode an utterance by the system and by the target alone, in turn the first."""
        ordered = self._systems[::-1] if swap else self._systems
        return {one: self.engine.decode(one, [request]) for one in ordered}

    @property
    def _systems(self) -> list[System]:
        """The systems whose seconds are compared."""
        beside = self._config.baseline and self._config.system is not System.target
        return [self._config.system, *([System.target] if beside else [])]

    def _clock(self, item: ListItem, number: int) -> dict[System, Timed] | None:
        """Decode an utterance by each system; None where a model broke down."""
        decoded = self._paired(self._request(item), swap=number % 2 == 1)
        broken = [one.outcomes[0].failure for one in decoded.values() if one.outcomes[0].failure]
        if broken:
            self.failed[item.id] = broken[0]
        return None if broken else decoded

    def _clock_of(
        self, item: ListItem, decoded: dict[System, Timed], memory: float | None
    ) -> tuple[Clock, Spoken]:
        """Return what this process measured of an utterance, and its audio.

        It is streamed too if that is asked.
        """
        config = self._config
        (outcome,) = decoded[config.system].outcomes
        spoken = self.spoken(item, outcome)
        clock = clock_of(decoded, config.system, spoken, memory)
        if config.chunk is not None and "chunk" in READS[config.system]:
            clock = replace(clock, arrivals=self._streamed(item, outcome))
        return clock, spoken

    def _timed_one(
        self, item: ListItem, decoded: dict[System, Timed], spoken: Spoken, clocks: list[Clock]
    ) -> Timing:
        """Return one utterance with its seconds."""
        request, own = self._request(item), decoded[self._config.system]
        (outcome,) = own.outcomes
        times: dict[str, Any] = {**means(clocks)}
        if len(decoded) > 1:
            times["baseline_tokens"] = len(decoded[System.target].outcomes[0].tokens)
        if len(clocks) > 1:
            times["clocks"] = clocks
        if self._timed[item.id] and outcome.split is None:
            times["split"] = self.engine.split(request, outcome)
        times["arrivals"] = clocks[0].arrivals
        return Timing(item, outcome, spoken, times)

    def _utterance(self, item: ListItem, outcome: Outcome, spoken: Spoken, **times: Any) -> Made:
        codes, codebooks = self.engine.codes(outcome), self.engine.codebooks
        framed = {"frames": len(codes) // codebooks, "codebooks": codebooks}
        seconds = {name: value for name, value in vars(spoken).items() if name != "wave"}
        made = record(
            item,
            self._config.seed,
            codes,
            spoken.wave,
            self.codec,
            tokens=len(outcome.tokens),
            stop="stop_id" if outcome.stopped else "max_length",
            counts=outcome.counts,
            **(framed if codebooks > 1 else {}),
            **{"lm_seconds": None} | seconds | times,
        )
        return made, spoken.wave

    def _streamed(self, item: ListItem, expected: Outcome) -> Arrivals:
        """Decode once more, in pieces: same tokens."""
        config = self._config
        grow = growing(self.engine, config.system, self._request(item))
        stream = Stream(self.engine, grow, self.prompt(item), config.chunk)
        deque(stream, maxlen=0)
        assert stream.outcome == expected, "streaming changed the tokens"
        return stream.arrivals

    def _request(self, item: ListItem) -> Request:
        """Return the item for the engine, encoded once while it is among the last `CHUNK`."""
        if item.id not in self._requests:
            if len(self._requests) >= CHUNK:
                del self._requests[next(iter(self._requests))]
            prompt = self.prompt(item)
            self._requests[item.id] = self.engine.request(item.id, prompt, self._config.seed)
        return self._requests[item.id]

    def prompt(self, item: ListItem) -> Prompt:
        """Return the item's text and voice."""
        return prompt_of(item, self.engine.target.layout, self._voices.__getitem__)


def _clocks(piece: tuple[DecodeConfig, list[ListItem]]) -> Clocks:
    """Time utterances in this process, which was made for it."""
    config, items = piece
    source = build(config)
    source.start(items, items)
    return source.clocks(items)
