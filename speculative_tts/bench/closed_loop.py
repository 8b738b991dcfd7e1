"""Measure how long each listener waits when an engine serves several at once.

A closed loop: so many clients, each of whom asks for the next utterance as soon as all audio of the
one before is there. One process decodes their rows together (`Graphs.serve`) and, between two
steps, the pieces of audio that have become final; a prefill or a piece holds up everybody.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count

import numpy as np

from speculative_tts.bench.asked import Asked
from speculative_tts.codecs.registry import silence
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.loops.graphs import Loop
from speculative_tts.decoding.streaming import stream_codec
from speculative_tts.records import Arrivals
from speculative_tts.schema.decode import System

PERCENTILES = (50, 95)
Clock = Callable[[], float]


@dataclass(frozen=True)
class Served:
    """The share of one listener: its tokens, and waiting times in milliseconds and as a factor."""

    id: str
    tokens: list[int]
    token_ms: float  # a token after the first
    first_audio_ms: float
    real_time_factor: float
    audio_seconds: float


@dataclass(frozen=True)
class Load:
    """A system's measured utterances, and what all clients together got while these were made."""

    served: list[Served]
    tokens: int
    seconds: float

    def __add__(self, other: "Load") -> "Load":
        served, tokens = [*self.served, *other.served], self.tokens + other.tokens
        return Load(served, tokens, self.seconds + other.seconds)

    def percentiles(self) -> dict[str, list[float]]:
        """Return `PERCENTILES` of each waiting time."""
        names = ("token_ms", "first_audio_ms", "real_time_factor")
        columns = {name: [getattr(one, name) for one in self.served] for name in names}
        return {name: np.percentile(x, PERCENTILES).tolist() for name, x in columns.items()}


@dataclass
class _Listening:
    """One utterance from the request on: when its tokens and its pieces of audio came."""

    engine: Engine
    asked: Asked
    since: float
    clock: Clock
    times: list[float] = field(default_factory=list)  # of the first token and of the newest
    pieces: Arrivals = field(default_factory=lambda: Arrivals([], []))
    tokens: int = 0

    def __post_init__(self) -> None:
        self._speaking = stream_codec(self.engine).speaking(self.asked.prompt.voice.cpu().numpy())

    def look(self, row: Loop, *, done: bool) -> int:
        """Decode the audio that new tokens make final; return how many tokens are new."""
        self.times = [*self.times[:1], self.clock()]
        before, self.tokens = self.tokens, int(row.rows.count[0])
        tokens = row.rows.tokens[0, : self.tokens].cpu().numpy()
        codes, codec = tokens[tokens < self.engine.codec.n_codes], self.engine.codec
        waves = self._speaking.ready(codes, ended=done)
        for wave in chain(waves, [silence(codec)] if done and not len(codes) else []):
            self.pieces.seconds.append(self.clock() - self.since)
            self.pieces.lengths.append(len(wave) / codec.sample_rate)
        return self.tokens - before

    def served(self, row: Loop) -> Served:
        """Return the figures; ValueError if a model broke down."""
        (outcome,) = row.outcomes()
        if outcome.failure:
            raise ValueError(outcome.failure)
        heard = self.pieces.heard()
        return Served(
            id=self.asked.request.id,
            tokens=outcome.tokens,
            token_ms=1000 * (self.times[-1] - self.times[0]) / max(1, self.tokens - 1),
            first_audio_ms=heard["first_audio_ms"],
            real_time_factor=heard["stream_seconds"] / heard["stream_audio_seconds"],
            audio_seconds=heard["stream_audio_seconds"],
        )


class _Clients:
    """All clients of a closed loop: what they ask for, and what each has got."""

    def __init__(self, engine: Engine, asked: Sequence[Asked], number: int, clock: Clock) -> None:
        self._engine, self._asked, self._number, self._clock = engine, asked, number, clock
        self._known: dict[str, Asked] = {}  # requests so far, by id
        self._listening: dict[int, _Listening] = {}  # by row
        self._served: dict[str, Served] = {}
        self._begin = self._end = clock()
        self._since = dict.fromkeys(range(number), self._begin)  # when each row's client asked
        self._tokens = 0

    @property
    def _done(self) -> bool:
        return len(self._served) == len(self._asked)

    def queue(self) -> Iterator[Request]:
        """Yield the utterances one after the other, over and over; those from 0 on are measured."""
        for number in count(-self._number):
            if self._done:
                return
            one = self._asked[number % len(self._asked)]
            if not 0 <= number < len(self._asked):
                beside = replace(one.request, id=f"{one.request.id}, beside {number}")
                one = replace(one, request=beside)
            self._known[one.request.id] = one
            yield one.request

    def look(self, seen: Mapping[int, tuple[Loop, bool]]) -> None:
        if len(self._known) == self._number:  # nobody has asked for one that is measured
            self._begin, self._tokens = self._clock(), 0
        for index, (row, done) in seen.items():
            if index not in self._listening:
                asked = self._known[row.rows.requests[0].id]
                given = self._engine, asked, self._since[index], self._clock
                self._listening[index] = _Listening(*given)
            new = self._listening[index].look(row, done=done)
            if not self._done:
                self._tokens, self._end = self._tokens + new, self._clock()
            if done:
                self._finish(index, row)

    def _finish(self, index: int, row: Loop) -> None:
        served = self._listening.pop(index).served(row)
        self._since[index] = self._clock()
        if any(served.id == one.request.id for one in self._asked):
            self._served[served.id] = served

    def load(self) -> Load:
        served = [self._served[one.request.id] for one in self._asked]
        return Load(served, self._tokens, self._end - self._begin)


def closed_loop(
    engine: Engine,
    system: System,
    asked: Sequence[Asked],
    clients: int,
    clock: Clock = time.perf_counter,
) -> Load:
    """Serve `clients` who ask for the utterances one after the other, over and over.

    Each utterance is measured once. Before that every client asks for one, so that rows do not
    begin in step; afterwards they ask on until the last measured one has ended.
    """
    all_ = _Clients(engine, asked, clients, clock)
    for seen in engine.serve(system, [one.request for one in asked], all_.queue(), clients):
        all_.look(seen)
    return all_.load()


def measured(
    systems: Mapping[str, tuple[Engine, System]], asked: Sequence[Asked], clients: int
) -> dict[str, Load]:
    """Measure each system with half of the utterances, and in the opposite order with the others.

    So a machine's drift affects all alike.
    """
    found = dict.fromkeys(systems, Load([], 0, 0.0))
    for half, names in ((asked[::2], [*systems]), (asked[1::2], [*systems][::-1])):
        for name in names if half else ():
            found[name] += closed_loop(*systems[name], half, clients)
    return found
