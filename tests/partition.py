"""Exact law of a shipped decoding loop, without sampling noise.

The loop is a function of its uniforms, constant on boxes whose edges are cumulative sums (draws)
and ratios q / p + beta (acceptances). `induced_law` runs the real loop with one row per box, each
at a random point of it; what the loop asked of a uniform tells where its box must be cut, and the
cut boxes run again until none is left to cut. The volumes of the boxes are the probabilities. A
uniform used twice (a position drafted again) is one edge of the box, as in a real run.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from reference import Law
from torch import Tensor

from speculative_tts.decoding import batch
from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.blocks import choosers
from speculative_tts.decoding.drafters import drafts
from speculative_tts.decoding.loops import one_by_one as loops
from speculative_tts.decoding.loops import speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.randomness import DRAWS, draw

THIN = 1e-14  # a cut so near an edge is that edge, rounded


@dataclass(frozen=True)
class Question:
    """Uniforms of `purpose` at positions [rows, n] were compared with levels [rows, n, m]; rows
    done did not care.
    """

    positions: Tensor
    purpose: int
    levels: Tensor
    done: Tensor


class Recorder:
    """Stands between the loop and its uniforms and notes every question, in order."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self._asked: list[tuple[int, Tensor, Tensor]] = []

    def watching(self) -> Callable[[BatchState, Tensor, int], Tensor]:
        """Stands in for the method `BatchState.uniform`."""
        real = BatchState.uniform

        def uniform(rows: BatchState, positions: Tensor, purpose: int) -> Tensor:
            self._asked.append((purpose, positions.clone(), rows.done.clone()))
            return real(rows, positions, purpose)

        return uniform

    def draw(self, probs: Tensor, uniform: Tensor) -> Tensor:
        levels = probs.cumsum(-1)[..., :-1] / probs.sum(-1, keepdim=True)
        self.note(-1, levels.reshape(len(levels), -1, levels.shape[-1]))
        return draw(probs, uniform)

    def thresholds(self, ratio: Tensor) -> None:
        self.note(-2, ratio[..., None])  # the latest is for an auxiliary draw

    def note(self, which: int, levels: Tensor) -> None:
        purpose, positions, done = self._asked[which]
        if positions.shape[1]:
            self.questions.append(Question(positions, purpose, levels, done))


class Watched(Tolerance):
    """The shipped rule; its thresholds are noted, not changed."""

    recorder: Recorder

    def accept(
        self, target_probs: Tensor, draft_probs: Tensor, drafted: Tensor, uniforms: Tensor
    ) -> Tensor:
        q, p = (x.gather(-1, drafted[..., None])[..., 0] for x in (target_probs, draft_probs))
        self.recorder.thresholds((q / p).clamp(max=1) + self.beta)
        return super().accept(target_probs, draft_probs, drafted, uniforms)


def induced_law(
    decode: Callable[[Tolerance, list[Request]], list[Outcome]],
    one: Request,
    *,
    lookahead: int = 0,
    beta: float = 0.0,
    limit: int = 400_000,
) -> Law:
    """Law of the outputs of `decode(rule, requests)`, in which the rule is for speculation only."""
    law: defaultdict[tuple[int, ...], float] = defaultdict(float)
    positions = one.max_tokens + lookahead + 1
    boxes = torch.zeros(1, positions, DRAWS, 2, dtype=torch.float64)
    boxes[..., 1] = 1.0
    generator = torch.Generator().manual_seed(0)
    seen = 0
    while len(boxes):
        seen += len(boxes)
        assert seen <= limit, f"{seen} boxes; choose a smaller toy"
        results, questions = _run(decode, one, boxes, beta, generator)
        cut = torch.zeros(len(boxes), dtype=torch.bool)
        pieces = [_cut(boxes, question, cut) for question in questions]
        sizes = (boxes[..., 1] - boxes[..., 0]).flatten(1).prod(1)
        for index in (~cut).nonzero()[:, 0].tolist():
            law[tuple(results[index].tokens)] += float(sizes[index])
        boxes = torch.cat(pieces)
    return dict(law)


def _run(
    decode: Callable[[Tolerance, list[Request]], list[Outcome]],
    one: Request,
    boxes: Tensor,
    beta: float,
    generator: torch.Generator,
) -> tuple[list[Outcome], list[Question]]:
    """The loop on one point of each box."""
    low, high = boxes.unbind(-1)
    share = torch.rand(low.shape, generator=generator, dtype=torch.float64) * 0.98 + 0.01
    points = low + (high - low) * share
    rule, recorder = Watched(beta), Recorder()
    object.__setattr__(rule, "recorder", recorder)
    rows = [
        Request(str(row), one.prompt, None, one.min_tokens, one.max_tokens, 0)
        for row in range(len(boxes))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            batch, "uniforms", lambda keys, n, device: points[[int(row) for _, row in keys], :n]
        )
        patch.setattr(BatchState, "uniform", recorder.watching())
        for module in (loops, speculation, drafts, choosers):
            patch.setattr(module, "draw", recorder.draw)
        return decode(rule, rows), recorder.questions


def _cut(boxes: Tensor, question: Question, cut: Tensor) -> Tensor:
    """Boxes that a question splits, split; `cut` ([boxes] bool, updated) says which were split by
    an earlier question.

    What a box was asked after an open question holds only at the point it was run at.
    """
    pieces = [boxes[:0]]
    for column in range(question.positions.shape[1]):
        at = question.positions[:, column]
        edges = boxes[torch.arange(len(boxes)), at, question.purpose]
        levels = question.levels[:, column]
        low, high = edges[:, :1], edges[:, 1:]
        inside = (levels > low + THIN) & (levels < high - THIN)
        split = inside.any(-1) & ~question.done & ~cut
        cut |= split
        if split.any():
            marks = torch.cat([low, levels.clamp(low, high), high], -1)[split].sort(-1).values
            parts = torch.stack([marks[:, :-1], marks[:, 1:]], -1)  # [split, m + 1, 2]
            copies = boxes[split][:, None].repeat(1, parts.shape[1], 1, 1, 1)
            index = at[split]
            copies[torch.arange(len(index)), :, index, question.purpose] = parts
            wide = parts[..., 1] - parts[..., 0] > THIN
            pieces.append(copies[wide])
    return torch.cat(pieces)
