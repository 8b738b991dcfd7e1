"""Multi-token heads of a Markov chain: the logits that are its hidden states, mixed anew a head.

And a recurrent layer on them.
"""

import torch
from stubs import CPU, Markov
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.blocks.choosers import Chooser, IndependentHeads, ViterbiHeads
from speculative_tts.decoding.blocks.transitions import DenseTransitions
from speculative_tts.decoding.blocks.viterbi import PathSearch
from speculative_tts.decoding.drafters.heads import HeadsDrafter
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.recurrent import BlockTensors, LayerTensors


class Mixed:
    """As `models.heads.Heads`: [batch, vocab] -> [batch, n, vocab]."""

    native = None

    def __init__(self, vocab: int, n: int, seed: int = 5) -> None:
        self.n, self.vocab_size = n, vocab
        generator = torch.Generator().manual_seed(seed)
        self._mix = torch.randn(n, vocab, vocab, generator=generator, dtype=torch.float64)

    def __call__(self, hidden: Tensor) -> Tensor:
        known = hidden.clamp(min=-3)
        return torch.einsum("bv,nwv->bnw", known, 0.5 * self._mix.to(hidden.dtype))


def choosers(
    vocab: int, stops: tuple[int, ...], sampler: Sampler, dtype: torch.dtype = torch.float32
) -> dict[str, Chooser]:
    """Every way to draft a block; transitions that matter, one of them impossible."""
    generator = torch.Generator().manual_seed(2)
    logs = 1.5 * torch.randn(vocab, vocab, generator=generator, dtype=torch.float64)
    logs[1, 1] = logs[:, list(stops)] = logs[list(stops)] = float("-inf")
    table = DenseTransitions(logs.to(dtype), size=vocab - len(stops))
    stop = StopRule.build(stops, vocab, [0], CPU)
    found: dict[str, Chooser] = {"independent": IndependentHeads(sampler)}
    for name, union, boundary, sample in (
        ("best path", True, True, False),
        ("drawn path", True, False, True),
        ("drawn path, boundary", True, True, True),
        ("drawn path, own candidates", False, True, True),
    ):
        search = PathSearch(table, 2, union, boundary)
        found[name] = ViterbiHeads(search, stop, temperature=1.3, sample=sample)
    return found


def by_heads(
    target: Markov,
    chooser: Chooser,
    rule: AcceptanceRule,
    stops: tuple[int, ...],
    sampler: Sampler,
    lookahead: int,
    requests: list[Request],
) -> list[Outcome]:
    """Speculation in which the target's heads draft."""
    drafter = HeadsDrafter(Mixed(target.vocab_size, lookahead + 1), chooser)  # type: ignore[arg-type]
    return Speculation(target, drafter, rule, sampler, stops, lookahead).decode(requests)


class Embedded(Markov):
    """A chain with inputs of its tokens; of states that are no chain's the head knows no bars."""

    def embed(self, ids: Tensor) -> Tensor:
        return torch.eye(self.vocab_size, dtype=self.table.dtype)[ids]


class Mixing:
    """As `models.recurrent.RecurrentLayer`: what was likely before, moved by the token."""

    native = None

    def __init__(self, vocab: int, seed: int = 3) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._mix = torch.randn(vocab, vocab, generator=generator, dtype=torch.float64)

    def __call__(self, states: Tensor, inputs: Tensor) -> Tensor:
        return 0.5 * states.clamp(min=-3) + 1.5 * inputs @ self._mix.to(inputs.dtype)

    def logits(self, states: Tensor) -> Tensor:
        return states


def by_layer(
    target: Embedded,
    rule: AcceptanceRule,
    stops: tuple[int, ...],
    sampler: Sampler,
    lookahead: int,
    requests: list[Request],
) -> list[Outcome]:
    """Speculation in which a recurrent layer drafts."""
    drafter = RecurrentDrafter(target, Mixing(target.vocab_size))  # type: ignore[arg-type]
    return Speculation(target, drafter, rule, sampler, stops, lookahead).decode(requests)


def layer_tensors(hidden: int, width: int = 48, blocks: int = 2) -> LayerTensors:
    """A random layer's."""
    generator = torch.Generator().manual_seed(1)
    shapes = ((width, 2 * hidden), (width,), (hidden, width), (hidden,))
    return LayerTensors(
        tuple(
            BlockTensors(*(0.2 * torch.randn(shape, generator=generator) for shape in shapes))
            for _ in range(blocks)
        )
    )
