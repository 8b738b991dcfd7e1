"""Decode CosyVoice 2 and 3 while text arrives: text and speech alternate in blocks.

A block is n text ids and m speech ids (`mix_ratio`). A fill id asks for the next text; it is put
out after m speech ids whatever the model says, or earlier when the model says so, and never fed.
Source: `inference_bistream` of the official repository at ace7c47, whose ways are kept: after a
fill the last speech id is fed a second time unless new text took its place, prompt speech for which
text never came is dropped, and length limits do not hold.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any

import torch
from torch import Tensor

from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.outcome import failure
from speculative_tts.decoding.sampling.randomness import draw
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.families.cosyvoice import CosyVoiceLayout
from speculative_tts.models.families.cosyvoice_text import END_OF_PROMPT
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import Model

NEVER = 2**62  # a minimum length that is not reached: the end of speech stays barred
ROOM = 512  # free positions of a new cache, at least

Noise = Callable[[], float]
"""The next uniform number in [0, 1)."""


def seeded(seed: int) -> Noise:
    """Return the uniform numbers of one utterance, keyed by a seed."""
    generator = torch.Generator().manual_seed(seed)
    return lambda: float(torch.rand((), dtype=torch.float64, generator=generator))


def spoken(engine: Engine, prompt: Prompt, words: Iterable[str], seed: int) -> Iterator[int]:
    """Yield codes in the voice of a prompt while the words of the text arrive.

    `words` replaces the prompt's text. Their ids are fed one by one, as the official frontend does,
    and equal those of the whole text: no id of this tokenizer crosses a space. The length limit
    holds once the text has ended.
    """
    layout = engine.target.layout
    assert isinstance(layout, CosyVoiceLayout), "checked by the command"
    instruction = "" if END_OF_PROMPT in prompt.voice_text else layout.instruction
    most = inf

    def ids() -> Iterator[list[int]]:
        nonlocal most
        number = 0
        for at, word in enumerate(words):
            for id_ in layout.encode(f" {word}" if at else word):
                number += 1
                yield [id_]
        most = number * engine.tokens_per_word[1]

    before = layout.encode(instruction + prompt.voice_text)
    given = (engine.target, layout, engine.sampler, ids(), before, prompt.codes, seeded(seed))
    for said, code in enumerate(bistream(*given)):
        if said >= most:
            return
        yield code


def bistream(
    model: Model,
    layout: CosyVoiceLayout,
    sampler: Sampler,
    text: Iterable[Sequence[int]],
    prompt_text: Sequence[int] = (),
    prompt_speech: Sequence[int] = (),
    noise: Noise | None = None,
) -> Iterator[int]:
    """Yield speech codes as they are drawn; take ids of the tokenizer from `text` when needed.

    Raises ValueError if the model draws a stop id that has no meaning there, since the utterance
    cannot go on.
    """
    state = _State(model, layout, sampler, noise or seeded(0))
    waiting = _begin(state, list(prompt_text))
    speech = list(prompt_speech)
    block, size = layout.mix_ratio
    state.next_fill = (len(speech) // size + 1) * size - len(speech)
    for piece in text:
        waiting += state.rows(piece)
        while speech and len(waiting) >= block:
            state.inputs += waiting[:block] + speech[:size]
            del waiting[:block], speech[:size]
        if speech or (state.wants_text and len(waiting) < block):
            continue
        if state.wants_text:
            state.take(waiting[:block])
            del waiting[:block]
        yield from state.until(layout.fill_id, ends=False)
    state.inputs = [*state.inputs, *waiting, layout.task_id]
    yield from state.until(layout.eos_id, ends=True)


def _begin(state: "_State", prompt_text: list[int]) -> list[int]:
    """Return the rows of prompt text that wait for blocks; feed CosyVoice 3's instruction now."""
    rows = state.rows(prompt_text)
    if state.layout.version == 2:
        return rows
    state.layout.check_text(prompt_text)
    end = prompt_text.index(state.layout.end_of_prompt) + 1
    state.inputs += rows[:end]
    return rows[end:]


class _State:
    """The state of one utterance: emitted ids, next inputs, and a cache that grows."""

    def __init__(
        self, model: Model, layout: CosyVoiceLayout, sampler: Sampler, noise: Noise
    ) -> None:
        self.layout = layout
        self.out: list[int] = []
        self.inputs: list[int] = [layout.sos_id]
        self.next_fill = 0
        self._model, self._sampler, self._noise = model, sampler, noise
        self._cache: Any = None
        self._fed: list[int] = []
        is_stop = torch.zeros(model.vocab_size, dtype=torch.bool, device=model.device)
        is_stop[list(layout.stop_ids)] = True
        self._is_stop = is_stop

    @property
    def wants_text(self) -> bool:
        return self.out[-1] == self.layout.fill_id if self.out else len(self.inputs) == 1

    def rows(self, text: Sequence[int]) -> list[int]:
        return [self.layout.text_offset + int(id_) for id_ in text]

    def take(self, rows: list[int]) -> None:
        """Add a block of text; after a fill it replaces the speech id that was fed already."""
        self.inputs = rows if self.out else self.inputs + rows

    def until(self, end: int, *, ends: bool) -> Iterator[int]:
        """Yield codes up to the id `end`; with `ends` speech may end and no fill is forced."""
        while (token := self._step(ends=ends)) != end:
            if token >= self.layout.n_codes:
                raise ValueError(
                    f"the model said {token}, a stop id without meaning in streamed text; "
                    "give the text as a whole"
                )
            yield token
            self.inputs = [token]

    def _step(self, *, ends: bool) -> int:
        logits, fill = self._feed(), self.layout.fill_id
        forced = not ends and len(self.out) == self.next_fill
        self.out.append(fill if forced else self._draw(logits, ends=ends))
        if self.out[-1] == fill:
            self.next_fill = len(self.out) + self.layout.mix_ratio[1]
        return self.out[-1]

    @torch.inference_mode()
    def _feed(self) -> Tensor:
        """Return the logits after the inputs, [1, 1, vocab]; double the cache when it is full."""
        done = len(self._fed)
        self._fed += self.inputs
        if self._cache is None or len(self._fed) > self._cache.capacity:
            self._cache, done = self._model.cache(1, 2 * len(self._fed) + ROOM), 0
        device = self._model.device
        ids = torch.tensor([self._fed[done:]], device=device)
        return self._model.extend(ids, self._cache, torch.tensor([done], device=device), keep=1)

    @torch.inference_mode()
    def _draw(self, logits: Tensor, *, ends: bool) -> int:
        device = logits.device
        history = torch.tensor([self.out or [0]], device=device)
        positions = torch.tensor([[len(self.out)]], device=device)
        least = torch.tensor([0 if ends else NEVER], device=device)
        stop = StopRule(self._is_stop, least, torch.zeros_like(self._is_stop)[None])
        law = self._sampler(logits, history, positions, stop)
        uniform = torch.tensor([[self._noise()]], dtype=torch.float64, device=device)
        token = int(draw(law, uniform)[0, 0])
        if token == law.shape[-1]:
            raise ValueError(failure("streamed text", len(self.out)))
        return token
