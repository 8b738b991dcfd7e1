"""Interfaces of a speech LM of any family, and of the layout of its ids."""

from typing import Any, Protocol, Self

import torch
from torch import Tensor

from speculative_tts.models.prompt import EncodedPrompt, Prompt


class Storage(Protocol):
    """A model's cache of a batch between passes."""

    def row(self, index: int) -> Self:
        """Return one row as a batch of 1 in the same tensors."""


class Layout(Protocol):
    """Facts about a checkpoint's ids, its prompt and the sampler it was made for."""

    @property
    def n_codes(self) -> int:
        """Size of the codec's codebook."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Speech ids that end an utterance."""

    @property
    def speech_vocab_size(self) -> int:
        """Codes and stop ids."""

    @property
    def sampling(self) -> dict[str, float]:
        """The checkpoint's own sampler: keys of a SamplingConfig."""

    @property
    def shared(self) -> dict[str, object]:
        """Facts that a draft must share with its target, by name."""

    def width(self, *, text_rows: bool) -> int:
        """Return the number of ids that the head has: all that can be emitted."""

    def order(self, *, text_rows: bool) -> Tensor:
        """Return the row of the checkpoint's vocabulary of each id: int64 [width]."""

    def text_ids(self, text: str, prompt_text: str = "") -> list[int]:
        """Return the ids of the texts; raise ValueError for a text that cannot be spoken."""

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Return all before the first new token, as rows of the checkpoint's vocabulary."""

    def limits(
        self, text: str, prompt_length: int, minimum: float, maximum: float
    ) -> tuple[int, int]:
        """Return the fewest and most new tokens of a text; minimum and maximum are per word.

        `prompt_length` is the prompt's, in positions.
        """


def follows_voice(layout: Layout) -> bool:
    """Return True if prompts of this layout have a place for a recording's words and codes."""
    return getattr(layout, "follows_voice", True)


def speaks_alone(layout: Layout) -> bool:
    """Return True if a prompt of this layout may be without a recording."""
    return getattr(layout, "speaks_alone", False)


def by_depth(layout: Layout) -> bool:
    """Return True if a depth decoder says the codes of a frame after its first."""
    return getattr(layout, "by_depth", False)


class Model(Protocol):
    """The part of a speech LM that decoding loops need; stubs have it too."""

    @property
    def vocab_size(self) -> int:
        """Speech ids, stop ids included."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""

    def cache(self, batch: int, capacity: int) -> Storage:
        """Return storage for `batch` rows of up to `capacity` positions."""

    def prefill(self, prompts: list[Tensor], cache: Any) -> Tensor:
        """Run the prompts; float32 logits of the first token, [batch, vocab]."""

    def extend(self, ids: Tensor, cache: Any, start: Tensor, keep: int | None = None) -> Tensor:
        """Feed ids [batch, new] at positions start [batch]; logits of the last `keep` of them."""


class HiddenModel(Model, Protocol):
    """A model that also gives its hidden states, which drafters and other heads may read."""

    def prefill_hidden(self, prompts: list[Tensor], cache: Any) -> Tensor:
        """Run prompts as `prefill` without the head; return last positions' states [batch, dim]."""

    def extend_hidden(
        self, ids: Tensor, cache: Any, start: Tensor, keep: int | None = None
    ) -> Tensor:
        """Feed ids as `extend` without the head; return states [batch, keep, dim]."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Apply the head: return float32 logits [..., vocab] of final hidden states [..., dim]."""


class FromStates:
    """Base of models whose logits are those of their hidden states."""

    def prefill(self: HiddenModel, prompts: list[Tensor], cache: Any) -> Tensor:
        """Run prompts as `prefill_hidden`; return logits of the first token, [batch, vocab]."""
        return self.logits(self.prefill_hidden(prompts, cache))

    def extend(
        self: HiddenModel, ids: Tensor, cache: Any, start: Tensor, keep: int | None = None
    ) -> Tensor:
        """Feed ids as `extend_hidden`; return logits of the last `keep`, [batch, keep, vocab]."""
        return self.logits(self.extend_hidden(ids, cache, start, keep))


class PromptedModel(Model, Protocol):
    """A model whose prompts can grow."""

    def append(self, prompt: Tensor, ids: Tensor) -> Tensor:
        """Return a prompt, as `prefill` reads it, with speech ids [new] after it."""


class UncachedModel(HiddenModel, PromptedModel, Protocol):
    """A model with hidden states whose prompts can grow."""


class SpeechLM(UncachedModel, Protocol):
    """A loaded speech LM of any family, which makes its own prompts."""

    @property
    def layout(self) -> Layout:
        """Facts about ids and prompt."""

    @property
    def step_bytes(self) -> int:
        """Bytes of weights that a step reads."""

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Return the prompt as rows of the vocabulary; raise ValueError if it is unspeakable."""

    def prompt(self, rows: list[int]) -> Tensor:
        """Return those rows as `prefill` reads them, such as [length, hidden]."""

    def speech_ids(self, rows: list[int]) -> list[int]:
        """Return the speech ids of those rows of a prompt that have one."""


def encode(model: SpeechLM, prompt: Prompt) -> EncodedPrompt:
    """Return the prompt as the model reads it. ValueError for a text that cannot be spoken."""
    ids = model.prompt_ids(prompt)
    return EncodedPrompt(ids, model.prompt(ids), tuple(model.speech_ids(ids)))


class Refiner(Protocol):
    """Makes all layers of codes from the first, which is what the LM emits."""

    @property
    def n_layers(self) -> int:
        """Layers of codes that come out."""

    def __call__(self, prompt: Prompt, first: list[int]) -> Tensor:
        """Return the codes [layers, tokens] after a prompt whose voice has all layers."""
