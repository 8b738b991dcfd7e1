"""All that decoding needs in one object: requests in, timed tokens and waves out."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from speculative_tts.codecs.registry import Codec, FlowCodec, decode_voice
from speculative_tts.decoding.batch import Request, Size
from speculative_tts.decoding.blocks.build import MultiToken
from speculative_tts.decoding.loops.graphs import EAGER, Graphs, Loop, LoopSpec
from speculative_tts.decoding.loops.multi_token import by_blocks, uncached_blocks
from speculative_tts.decoding.loops.observer import Instruments, synchronise
from speculative_tts.decoding.loops.one_by_one import alone, uncached
from speculative_tts.decoding.loops.paying import Paying
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.decoding.sampling.settings import sampler_of
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.slots import slots_of
from speculative_tts.models.speech_lm import Refiner, SpeechLM, by_depth, encode
from speculative_tts.records import Split
from speculative_tts.schema.decode import BY_HEADS, SamplingConfig, System

ROWS = 8  # decoded together on a CPU: with more the weights are read no seldomer


@dataclass(frozen=True)
class Timed:
    """Utterances decoded together and the seconds it took, prefill included."""

    outcomes: list[Outcome]
    seconds: float
    prefill_seconds: float | None = None  # of them, until the first tokens; None where not told


def timed(device: torch.device, decode: Callable[[Callable[[], None]], list[Outcome]]) -> Timed:
    """Decode a batch and clock it, with the device idle at both ends.

    `decode` calls what it is given once the first tokens are there, or never.
    """
    clock: list[float] = []

    def look() -> None:
        synchronise(device)
        clock.append(time.perf_counter())

    look()
    outcomes = decode(look)
    look()
    begin, *first, end = clock
    return Timed(outcomes, end - begin, first[0] - begin if first else None)


@dataclass(frozen=True)
class Spoken:
    """A wave [samples], and the seconds of what came after the LM."""

    wave: np.ndarray
    codec_seconds: float  # codes to wave
    flow_seconds: float | None = None  # of them, in a codec's flow; the rest is its vocoder
    nar_seconds: float | None = None  # further layers of codes


@dataclass(frozen=True)
class Engine:
    """A target, its codec, and what else the systems that it was built for decode with."""

    target: SpeechLM
    codec: Codec
    sampling: SamplingConfig  # complete: no number is None
    refiner: Refiner | None = None  # of a codec with several layers
    facts: Mapping[str, Any] = field(default_factory=dict)  # caches and heads it was made of
    graphs: Graphs = EAGER
    draft: SpeechLM | None = None  # alone, or as the drafter
    speculation: Speculation | None = None
    multi: MultiToken | None = None
    paying: Paying | None = None  # chooses where speculation may be left out

    @cached_property
    def sampler(self) -> Sampler:
        """The sampler of target and draft."""
        return sampler_of(self.sampling, self.target.layout)

    @property
    def tokens_per_word(self) -> tuple[float, float]:
        """Return the fewest and the most tokens of a word."""
        least, most = self.sampling.min_tokens_per_word, self.sampling.max_tokens_per_word
        assert least is not None
        assert most is not None
        return least, most

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Speech ids that end an utterance."""
        return self.target.layout.stop_ids

    def request(self, id_: str, prompt: Prompt, seed: int) -> Request:
        """Make a request of a prompt; raise ValueError for a text that the target cannot speak."""
        target = encode(self.target, prompt)
        draft = None if self.draft is None else encode(self.draft, prompt).inputs
        layout = self.target.layout
        fewest, most = layout.limits(prompt.text, len(target.inputs), *self.tokens_per_word)
        return Request(
            id=id_,
            prompt=target.inputs,
            draft_prompt=draft,
            min_tokens=fewest,
            max_tokens=most,
            seed=seed,
            prompt_tokens=target.speech_ids,
            last_code=next(reversed(prompt.codes), None),
        )

    def positions(self, system: System, request: Request) -> int:
        """Return how long a request may become with its prompt, drafted tokens included."""
        return Size.of([request], self._looping(system).slack).positions

    def bucket(self, system: System, request: Request) -> Size | None:
        """The size that steps of a system are captured for; None where none are."""
        return self.graphs.bucket(self._looping(system), [request])

    def require_room(self, positions: int) -> None:
        """Raise ValueError if a model cannot hold so many positions."""
        for model in filter(None, (self.target, self.draft)):
            model.cache(1, positions)

    def decode(self, system: System, requests: list[Request]) -> Timed:
        """Decode a batch with a system that has a model, the device idle at both ends."""
        return timed(self.target.device, partial(self._outcomes, system, requests))

    def stream(
        self, system: System, requests: list[Request], size: int | None = None
    ) -> Iterator[tuple[Request, Outcome]]:
        """Yield utterances as they end, `size` decoded together; their tokens are `decode`'s."""
        looping = self._looping(system)
        if size is None and self.target.device.type == "cuda":
            size = self.graphs.fitting(looping, requests, self.target.vocab_size)
        size = size or ROWS
        return self.graphs.stream(self._paying(looping, requests[:size]), requests, size)

    def serve(
        self, system: System, requests: list[Request], queue: Iterator[Request], rows: int
    ) -> Iterator[dict[int, tuple[Loop, bool]]]:
        """Decode a queue, `rows` requests at a time, none longer than `requests`' longest.

        See `Graphs.serve`; the tokens are those of `decode`.
        """
        looping = self._paying(self._looping(system), requests[:rows])
        size = replace(Size.of(requests, looping.slack), batch=rows)
        return self.graphs.serve(looping, size, queue)

    def states(
        self, system: System, request: Request, strides: Iterable[int] | None = None
    ) -> Iterator[Loop]:
        """Yield the loop of one utterance after each step; see `Graphs.states`."""
        return self.graphs.states(self._looping(system), [request], strides)

    def _looping(self, system: System) -> LoopSpec[Any]:
        """Return the loop that a system decodes with."""
        if system is System.speculative:
            assert self.speculation is not None, "built for another system"
            return self.speculation.looping()
        if system in BY_HEADS:
            assert self.multi is not None, "built for another system"
            return by_blocks(self.target, self.multi.heads, self.multi.choose, self.stop_ids)
        model = self.draft if system is System.draft else self.target
        assert model is not None, "built for another system"
        return alone(model, self.stop_ids, self.sampler)

    def _outcomes(
        self, system: System, requests: list[Request], loaded: Callable[[], None]
    ) -> list[Outcome]:
        if system is System.uncached:
            return uncached(self.target, self.stop_ids, self.sampler, requests)
        if system is System.uncached_heads:
            assert self.multi is not None, "built for another system"
            given = (self.multi.heads, self.multi.choose, self.stop_ids)
            return uncached_blocks(self.target, *given, requests)
        if system is System.multi_token:  # its first block comes of the prompt, not one token
            return self.graphs.decode(self._looping(system), requests)
        looping = self._paying(self._looping(system), requests)
        return self.graphs.decode(looping, requests, loaded)

    def _paying(self, looping: LoopSpec[Any], requests: list[Request]) -> LoopSpec[Any]:
        """Return the target's loop instead where it is faster and the settings leave the choice."""
        if self.paying is None or not requests or looping.key is None:
            return looping
        if self.speculation is None or looping.key != self.speculation.looping().key:
            return looping
        return self.paying.choose(looping, self._looping(System.target), requests)

    def split(self, request: Request, expected: Outcome) -> Split:
        """Decode once more with instruments on: same uniforms, hence the same tokens.

        Its seconds are those of the first time where the loop clocked itself.
        """
        assert self.speculation is not None, "built for another system"
        rule, lookahead = self.speculation.rule, self.speculation.lookahead
        watch = Instruments(rule, lookahead, self.target.device)
        (again,) = self.graphs.decode(self.speculation.looping(watch), [request])
        assert again.tokens == expected.tokens, "instruments changed the tokens"
        draft, verify, accept = expected.split or watch.seconds.values()
        return Split(
            draft_seconds=draft,
            verify_seconds=verify,
            accept_seconds=accept,
            positions=watch.positions,
            per_round=watch.per_round,
            **watch.sums(),
        )

    def audio(self, outcome: Outcome, prompt: Prompt) -> Spoken:
        """Return the wave of a decoded utterance; silence if it has no codes."""
        codes, voice = self.codes(outcome), prompt.voice.cpu().numpy()
        layers, nar = np.array(codes, dtype=np.int64), None
        if self.refiner is not None:
            begin = self._now()
            layers = self.refiner(prompt, codes).numpy()
            nar = self._now() - begin
        flow, begin = self._in_flow(), self._now()
        wave = decode_voice(self.codec, layers, voice)
        seconds, after = self._now() - begin, self._in_flow()
        spent = None if flow is None or after is None else after - flow
        return Spoken(wave, seconds, spent, nar)

    def _now(self) -> float:
        """Return the clock's seconds, once the device has done its work."""
        synchronise(self.target.device)
        return time.perf_counter()

    def _in_flow(self) -> float | None:
        """Return the seconds that the codec has spent in its flow; None if it has no flow."""
        return self.codec.flow_seconds if isinstance(self.codec, FlowCodec) else None

    def codes(self, outcome: Outcome) -> list[int]:
        """Return the speech codes of an utterance: its tokens without stop id and text rows.

        Nor is the frame said whose codes a talker ends with.
        """
        codes = [token for token in outcome.tokens if token < self.codec.n_codes]
        return codes[: len(codes) // self.codebooks * self.codebooks]

    @property
    def codebooks(self) -> int:
        """Return how many codes a talker's frame has; 1 of other targets."""
        layout = self.target.layout
        slots = slots_of(layout) if by_depth(layout) else None
        return 1 if slots is None else len(slots.sizes)
