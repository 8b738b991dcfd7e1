"""Measure how long each listener waits when an engine serves several at once.

A closed loop: so many clients, each of whom asks for the next utterance as soon as all audio of the
one before is there. One process decodes their rows together (`Graphs.serve`) and, between two
steps, the pieces of audio that have become final; a prefill or a piece holds up everybody.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count

from speculative_tts.bench.asked import Asked
from speculative_tts.codecs.registry import silence
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.loops.graphs import Loop
from speculative_tts.decoding.streaming import stream_codec
from speculative_tts.records import Arrivals
from speculative_tts.schema.decode import System

Clock = Callable[[], float]


@dataclass(frozen=True)
class Served:
    """An utterance that one client has got, and the seconds that it took."""

    id: str
    tokens: list[int]
    token_seconds: float  # from the first token to the last
    first_audio: float  # from asking to the first piece
    seconds: float  # from asking to the last piece
    audio_seconds: float


@dataclass
class _Listening:
    """One utterance from the request on: when its tokens and its pieces of audio came."""

    engine: Engine
    asked: Asked
    since: float
    clock: Clock
    times: list[float] = field(default_factory=list)  # of the first token and of the newest
    pieces: Arrivals = field(default_factory=lambda: Arrivals([], []))

    def __post_init__(self) -> None:
        self._speaking = stream_codec(self.engine).speaking(self.asked.prompt.voice.cpu().numpy())

    def look(self, row: Loop, *, done: bool) -> None:
        """Decode the audio that new tokens make final."""
        self.times = [*self.times[:1], self.clock()]
        tokens = row.rows.tokens[0, : int(row.rows.count[0])].cpu().numpy()
        codes, codec = tokens[tokens < self.engine.codec.n_codes], self.engine.codec
        waves = self._speaking.ready(codes, ended=done)
        for wave in chain(waves, [silence(codec)] if done and not len(codes) else []):
            self.pieces.seconds.append(self.clock() - self.since)
            self.pieces.lengths.append(len(wave) / codec.sample_rate)

    def served(self, row: Loop) -> Served:
        """Return the figures; ValueError if a model broke down."""
        (outcome,) = row.outcomes()
        if outcome.failure:
            raise ValueError(outcome.failure)
        return Served(
            id=self.asked.request.id,
            tokens=outcome.tokens,
            token_seconds=self.times[-1] - self.times[0],
            first_audio=self.pieces.seconds[0],
            seconds=self.pieces.seconds[-1],
            audio_seconds=sum(self.pieces.lengths),
        )


class _Clients:
    """All clients of a closed loop: what they ask for, and what each has got."""

    def __init__(self, engine: Engine, asked: Sequence[Asked], number: int, clock: Clock) -> None:
        self._engine, self._asked, self._number, self._clock = engine, asked, number, clock
        self._known: dict[str, Asked] = {}  # requests so far, by id
        self._listening: dict[int, _Listening] = {}  # by row
        self._served: dict[str, Served] = {}
        self._since = dict.fromkeys(range(number), clock())  # when each row's client asked

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
        for index, (row, done) in seen.items():
            if index not in self._listening:
                asked = self._known[row.rows.requests[0].id]
                given = self._engine, asked, self._since[index], self._clock
                self._listening[index] = _Listening(*given)
            self._listening[index].look(row, done=done)
            if done:
                self._finish(index, row)

    def _finish(self, index: int, row: Loop) -> None:
        served = self._listening.pop(index).served(row)
        self._since[index] = self._clock()
        if any(served.id == one.request.id for one in self._asked):
            self._served[served.id] = served

    def served(self) -> list[Served]:
        return [self._served[one.request.id] for one in self._asked]


def closed_loop(
    engine: Engine,
    system: System,
    asked: Sequence[Asked],
    clients: int,
    clock: Clock = time.perf_counter,
) -> list[Served]:
    """Serve `clients` who ask for the utterances one after the other, over and over.

    Each utterance is measured once. Before that every client asks for one, so that rows do not
    begin in step; afterwards they ask on until the last measured one has ended.
    """
    all_ = _Clients(engine, asked, clients, clock)
    for seen in engine.serve(system, [one.request for one in asked], all_.queue(), clients):
        all_.look(seen)
    return all_.served()


def measured(
    systems: Mapping[str, tuple[Engine, System]], asked: Sequence[Asked], clients: int
) -> dict[str, list[Served]]:
    """Measure each system with half of the utterances, and in the opposite order with the others.

    So a machine's drift affects all alike.
    """
    found: dict[str, list[Served]] = {name: [] for name in systems}
    for half, names in ((asked[::2], [*systems]), (asked[1::2], [*systems][::-1])):
        for name in names if half else ():
            found[name] += closed_loop(*systems[name], half, clients)
    return found
