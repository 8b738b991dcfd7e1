"""Stub models for the decoding loops: Markov chains of order two that read their history from their
cache.

A wrong `start`, a cache not rolled back or a token never fed gives the wrong context, hence another
law. A prompt is [length, 1], its values token ids; it needs two or more.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.observer import Observer
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.speech_lm import HiddenModel, Model

CPU = torch.device("cpu")
IMPOSSIBLE = float("-inf")


@dataclass
class Markov:
    """table: logits [vocab, vocab, vocab] of the next token after (token before the last, last
    token).
    """

    table: Tensor

    @classmethod
    def random(
        cls, vocab: int, seed: int, *, scale: float = 1.5, dtype: torch.dtype = torch.float32
    ) -> "Markov":
        generator = torch.Generator().manual_seed(seed)
        return cls(
            scale
            * torch.randn(vocab, vocab, vocab, generator=generator, dtype=torch.float64).to(dtype)
        )

    def near(self, seed: int, distance: float) -> "Markov":
        """A draft that sometimes agrees: this table with noise of standard deviation `distance`."""
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(self.table.shape, generator=generator, dtype=torch.float64)
        return type(self)(self.table + distance * noise.to(self.table.dtype))

    def without(self, *tokens: int) -> "Markov":
        """This chain where some tokens are impossible."""
        table = self.table.clone()
        table[..., list(tokens)] = IMPOSSIBLE
        return type(self)(table)

    @property
    def vocab_size(self) -> int:
        return self.table.shape[-1]

    @property
    def device(self) -> torch.device:
        return CPU

    def cache(self, batch: int, capacity: int) -> Tensor:
        return torch.zeros(batch, capacity, dtype=torch.int64)

    def prefill(self, prompts: list[Tensor], cache: Tensor) -> Tensor:
        padded = pad_sequence(prompts, batch_first=True)[..., 0].long()
        cache[:, : padded.shape[1]] = padded
        rows, last = torch.arange(len(prompts)), torch.tensor([len(p) - 1 for p in prompts])
        return self.table[padded[rows, last - 1], padded[rows, last]]

    def prefill_hidden(self, prompts: list[Tensor], cache: Tensor) -> Tensor:
        """Its hidden states are its logits."""
        return self.prefill(prompts, cache)

    def extend_hidden(
        self, ids: Tensor, cache: Tensor, start: Tensor, keep: int | None = None
    ) -> Tensor:
        return self.extend(ids, cache, start, keep)

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def extend(self, ids: Tensor, cache: Tensor, start: Tensor, keep: int | None = None) -> Tensor:
        positions = start[:, None] + torch.arange(ids.shape[1])
        cache.scatter_(1, positions, ids)
        logits = self.table[cache.gather(1, positions - 1), ids]
        return logits if keep is None else logits[:, -keep:]


def prompt(*tokens: int) -> Tensor:
    """Prompt of a Markov chain."""
    return torch.tensor(tokens, dtype=torch.float32)[:, None]


def request(
    id_: str = "a",
    *,
    minimum: int = 0,
    maximum: int = 12,
    seed: int = 0,
    start: tuple[int, ...] = (0, 1),
) -> Request:
    """A request for a Markov chain, the same prompt for target and draft."""
    return Request(id_, prompt(*start), None, minimum, maximum, seed)


def ragged(count: int, *, vocab: int, seed: int = 0) -> list[Request]:
    """Requests that differ in prompt length and content, minimum and maximum length."""
    return [
        request(
            f"utterance {row}",
            minimum=row % 4,
            maximum=1 + (5 * row) % 13,
            seed=seed,
            start=tuple((row + k) % vocab for k in range(2 + row % 3)),
        )
        for row in range(count)
    ]


def speculative(
    target: HiddenModel,
    draft: Model,
    rule: AcceptanceRule,
    stop_ids: tuple[int, ...],
    sampler: Sampler,
    lookahead: int,
    requests: list[Request],
    observer: Observer | None = None,
) -> list[Outcome]:
    """A model drafts for another."""
    made = Speculation(target, LMDrafter(draft), rule, sampler, stop_ids, lookahead)
    return made.decode(requests, observer)
