"""An utterance as waves while it is being made, and when each of them came."""

import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from speculative_tts.codecs.audio import Wave
from speculative_tts.codecs.pieces import StreamCodec
from speculative_tts.codecs.registry import silence
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.loops.observer import synchronise
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.models.prompt import Prompt
from speculative_tts.records import Arrivals
from speculative_tts.schema.decode import System

ALONE = (System.target, System.draft)
STREAMED = (*ALONE, System.speculative, System.multi_token)

Codes = np.ndarray
Growing = Iterator[Codes | Outcome]
"""All codes so far, again and again; at last what they came to."""
Grow = Callable[[Iterator[int]], Growing]
"""Makes codes, told how many more each next piece of the wave needs."""


class Stream:
    """One utterance to iterate over once: its waves [samples], in pieces of `chunk` codes.

    Afterwards `outcome` and `arrivals` say what it came to. Raises ValueError for a codec that
    needs whole utterances, and for what breaks decoding.
    """

    def __init__(
        self, engine: Engine, grow: Grow, prompt: Prompt, chunk: int | None = None
    ) -> None:
        """`grow`: `growing` in the engine, or `given`."""
        self._engine, self._grow = engine, grow
        self._speaking = stream_codec(engine).speaking(prompt.voice.cpu().numpy(), chunk)
        self._times: list[tuple[float, float]] = []
        self.outcome: Outcome | None = None

    @property
    def arrivals(self) -> Arrivals:
        """When each piece was there, and its length."""
        seconds, lengths = ([pair[i] for pair in self._times] for i in (0, 1))
        return Arrivals(seconds, lengths)

    def __iter__(self) -> Iterator[Wave]:
        engine, begin = self._engine, time.perf_counter()
        for wave in self._waves():
            self._times.append((time.perf_counter() - begin, len(wave) / engine.codec.sample_rate))
            yield wave

    def _waves(self) -> Iterator[Wave]:
        for grown in self._grow(self._speaking.strides()):
            if isinstance(grown, Outcome):
                self.outcome = grown
            else:
                yield from self._speaking.ready(grown)
        assert self.outcome is not None
        if self.outcome.failure:
            raise ValueError(self.outcome.failure)
        codes = np.array(self._engine.codes(self.outcome), dtype=np.int64)
        yield from self._speaking.ready(codes, ended=True)
        if not len(codes):
            yield silence(self._engine.codec)


def stream_codec(engine: Engine) -> StreamCodec:
    """Return the engine's codec; ValueError if it cannot speak before an utterance has ended."""
    codec = engine.codec
    if engine.refiner is not None or not isinstance(codec, StreamCodec):
        raise ValueError(
            f"{type(codec).__name__} makes waves of whole utterances only; leave streaming out "
            "(stream=false, chunk=null, streams=null), or take another target and codec"
        )
    return codec


def growing(engine: Engine, system: System, request: Request) -> Grow:
    """The codes of an utterance after each round or block, or of a model alone each stride."""

    def grow(strides: Iterator[int]) -> Growing:
        assert system in STREAMED, f"{system.name} makes no tokens one by one"
        synchronise(engine.target.device)
        # of the others nobody knows before how many codes a step makes
        for loop in engine.states(system, request, strides if system in ALONE else None):
            if loop.rows.finished:
                yield from loop.outcomes()
            else:
                tokens = loop.rows.tokens[0, : int(loop.rows.count[0])]
                yield tokens[tokens < engine.codec.n_codes].cpu().numpy()

    return grow


def given(codes: Iterable[int]) -> Grow:
    """Codes that come one by one from elsewhere."""

    def grow(_: Iterator[int]) -> Growing:
        said: list[int] = []
        for code in codes:
            said.append(code)
            yield np.array(said)
        yield Outcome(said, stopped=True)

    return grow
