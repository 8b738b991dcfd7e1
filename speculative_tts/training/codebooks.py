"""Train the steps by which a talker's frozen heads draft (`models.codebook_offsets`).

States are of whole frames: the talker is fed recorded or its own codes as at inference, and of each
frame the states that its codes were drawn from are kept. From the state of codebook t and its code,
step i predicts codebook t + i, for every t whose draft stays in the frame and before its last code,
as `decoding.drafters.codebooks` drafts. The target's distribution there follows from its state,
which is kept too.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from speculative_tts.models.codebook_offsets import CodebookOffsets, load_offsets
from speculative_tts.models.families.csm.lm import CsmLM
from speculative_tts.models.families.registry import load_speech_lm
from speculative_tts.schema.common import Device
from speculative_tts.schema.train import Optimiser, TrainHeadsConfig
from speculative_tts.training.data.pairs import IGNORED, SequenceBatch
from speculative_tts.training.draft import speech_sampler, temperature_of
from speculative_tts.training.headed import States, copy_in_order, step_figures, step_sums
from speculative_tts.training.loop import Values
from speculative_tts.training.losses import check_weights, mix
from speculative_tts.training.objective import Sampler

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # logits, wanted codes, target logits: [n]
CPU = torch.device("cpu")
Drafted = tuple[Tensor, Tensor, Tensor]
"""Of one step: draft logits [n, size], wanted codes [n], the target's logits [n, size]."""


class CodebookTrunk(nn.Module):
    """Compute the losses of n - 1 steps on a frozen talker; initially they change no state."""

    ahead = 0  # following positions whose states are read too: a position is a whole frame

    def __init__(self, target: CsmLM, n: int, width: int, loss: Loss, sampler: Sampler) -> None:
        super().__init__()
        self._target, self.n, self._loss, self._sampler = target, n, loss, sampler
        self._hidden, self._books = target.depth.config.hidden, target.config.codebooks
        both, steps = 2 * self._hidden, n - 1
        self.inner = nn.Parameter(torch.randn(steps, width, both) / both**0.5)
        self.bias = nn.Parameter(torch.zeros(steps, self._books, width))
        self.out = nn.Parameter(torch.zeros(steps, self._hidden, width))
        heads = torch.stack([head.dense().float() for head in target.weights.heads[1:]])
        self._heads: Tensor
        self.register_buffer("_heads", heads, persistent=False)  # of codebooks 1, 2, ...

    @property
    def offsets(self) -> CodebookOffsets:
        """Return the steps as they draft."""
        return CodebookOffsets(self.inner, self.bias, self.out)

    @torch.no_grad()
    def states(self, batch: SequenceBatch) -> States:
        """Return of each frame the states of all codes but the first, and its codes."""
        found = [self._frames(*row) for row in zip(batch.inputs, batch.targets, strict=True)]
        hidden, codes = (torch.cat(parts) for parts in zip(*found, strict=True))
        return States(hidden, codes)

    def _frames(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return a sequence's states [frames, hidden of all codes] and codes [frames, books]."""
        target, learnt = self._target, targets != IGNORED
        first = int(learnt.nonzero()[0, 0])
        prompt, codes = target.prompt(inputs[: first + 1].tolist()), targets[learnt][:-1]
        cache = target.cache(1, len(prompt) + len(codes) + 1)
        begin = target.prefill_hidden([prompt], cache)
        after = target.extend_hidden(codes[None], cache, torch.tensor([len(prompt)]))[0]
        drawn = torch.cat([begin, after[:-1]]).view(-1, self._books, target.width + 1)
        states = drawn[:, 1:, : self._hidden].flatten(1)
        return states, codes.view(-1, self._books) % target.config.size

    def forward(self, states: States) -> tuple[Tensor, Values]:
        """Return the loss summed over frames, of each step the mean over where it drafts."""
        losses = [
            self._loss(*drafted).view(len(states), -1).mean(1).sum()
            for drafted in self.steps(states)
        ]
        return torch.stack(losses).sum(), {}

    @torch.no_grad()
    def dev_sums(self, states: States) -> Tensor:
        """Return loss, right codes, expected acceptance and codes of each step: [n - 1, 4]."""
        rows = [
            step_sums(self._loss(*drafted), *drafted, self._sampler)
            for drafted in self.steps(states)
        ]
        return torch.tensor(rows, dtype=torch.float64)

    def figures(self, sums: Float[Tensor, "steps 4"]) -> dict[str, Any]:
        """Return the sum of mean losses, and each step's accuracy and expected acceptance."""
        return step_figures(sums)

    def steps(self, states: States) -> Iterator[Drafted]:
        """Yield each step's drafts from every codebook of the frames that it drafts from."""
        target, last = self._target, self._books - 2  # of the codebooks that are drafted
        own = states.hidden.view(len(states), self._books - 1, self._hidden)
        codes, books = states.targets.long(), torch.arange(1, self._books)
        with torch.no_grad():
            fed = target.within((codes + target.config.size * torch.arange(self._books))[:, 1:])
        for step in range(1, self.n):
            begin, drafted = slice(0, last - step), books[step:last]
            state, newest = (part[:, begin].flatten(0, 1) for part in (own, fed.float()))
            moved = self.offsets(state, newest, step, drafted.repeat(len(states)))
            heads = self._heads[step:last]
            logits, behind = (
                torch.einsum("ftd,tdv->ftv", part, heads).flatten(0, 1)
                for part in (moved.view(len(states), -1, self._hidden), own[:, step:last])
            )
            yield logits, codes[:, drafted].flatten(), behind

    def go_on(self, folder: Path, target: Path) -> None:
        """Start from earlier steps; raise ValueError for another target or other sizes."""
        earlier = load_offsets(folder, target, self._hidden, self._books)
        copy_in_order(self, [earlier.inner, earlier.bias, earlier.out], folder)

    def save(self, folder: Path, target: Path, about: dict[str, Any]) -> None:
        """Write the steps."""
        self.offsets.save(folder, target=target, about=about)


def codebook_trunk(config: TrainHeadsConfig) -> CodebookTrunk:
    """Return the module to train; raise ValueError for settings of another kind or target."""
    others = {
        "own_drafts": config.own_drafts,
        "blocks": config.blocks > 1,
        "train_trunk": config.train_trunk,
        "gradient_checkpointing": config.gradient_checkpointing,
        "optimiser=muon": config.optimiser is Optimiser.muon,
        "device=cuda": config.device is not Device.cpu,
    }
    if named := [name for name, given in others.items() if given]:
        raise ValueError(f"{', '.join(named)} is not of kind=codebooks; leave it out")
    target = load_speech_lm(config.target, dtype=torch.float32, device=CPU)
    if not isinstance(target, CsmLM):
        raise ValueError(
            f"kind=codebooks is of targets with a depth decoder, which {config.target.path} has "
            "not; give kind=recurrent, linear or residual"
        )
    most = target.config.codebooks - 2
    if config.n > most:
        raise ValueError(
            f"n {config.n} is above {most}: of {target.config.codebooks} codes a frame, 0, 1 and "
            "the last are no drafts; lower n"
        )
    weights = vars(config.losses)
    check_weights(weights)
    loss = partial(mix, weights, temperature=temperature_of(target.layout))
    width = config.width or target.depth.config.hidden
    sampler = speech_sampler(target.layout, stop_ids=())
    return CodebookTrunk(target, config.n, width, loss, sampler)
