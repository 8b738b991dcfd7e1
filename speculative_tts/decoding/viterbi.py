"""Path search over the candidates of n heads (Nguyen et al., 2025, arXiv 2410.13839, Algorithm 1).

    best    argmax over paths of  S_1(a_1) prod_t Q(a_{t-1}, a_t) S_t(a_t)
    sample  a path drawn with that as its weight: forward filtering, backward sampling

S_t is head t's probability and Q the transitions'. States are the likeliest tokens of any head
(`union`, each with its true S_t) or those of position t's head (`perhead`). Scores are compared up
to a constant of each head, so nothing is normalised. Batched and of fixed shape, with nothing read
by the host; only on a CPU, where reading is free, a union is as wide as it has to be. One exception
to the paper: a block in which no path is possible takes each head's likeliest candidate.

Shapes: m candidates, transitions [batch, m of the later token, m of the earlier]. Torch only.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from speculative_tts.decoding.randomness import draw
from speculative_tts.decoding.transitions import IMPOSSIBLE, Transitions


@dataclass(frozen=True)
class Path:
    """Tokens [batch, n], and the rows [batch] in which no path was possible."""

    tokens: Tensor
    dead: Tensor


@dataclass(frozen=True)
class Lattice:
    """Candidates and weights of the paths through them."""

    ids: Tensor  # int64 [batch, n, m], or [batch, m] when all positions share them
    scores: Tensor  # [batch, n, m], -inf where impossible
    steps: tuple[Tensor, ...]  # n - 1 of [batch, m, m]

    def tokens(self, states: Tensor) -> Tensor:
        """States [batch, n] as ids."""
        if self.ids.ndim == 2:
            return self.ids.gather(1, states)
        return self.ids.gather(2, states[..., None])[..., 0]


@dataclass(frozen=True)
class PathSearch:
    """The lattice's settings: `top_k` candidates a head; `boundary` counts Q(last, a_1) too."""

    transitions: Transitions
    top_k: int
    union: bool = True
    boundary: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= self.transitions.size:
            raise ValueError(
                f"viterbi.top_k {self.top_k} is not in 1 to {self.transitions.size}, the codes"
            )

    def best(self, scores: Tensor, last: Tensor) -> Path:
        """The most probable path of log scores [batch, n, vocab]; last: int64 [batch].

        Ids that no path may take have -inf.
        """
        ids = scores.topk(self.top_k, -1).indices
        return best_path(self._lattice(ids, scores, last))

    def sample(self, scores: Tensor, ids: Tensor, last: Tensor, uniform: Tensor) -> Path:
        """A path drawn by uniforms, float64 [batch, n], among candidates ids [batch, n, k]."""
        return sampled_path(self._lattice(ids, scores, last), uniform)

    def _lattice(self, ids: Tensor, scores: Tensor, last: Tensor) -> Lattice:
        n = ids.shape[1]
        if self.union:
            ids, live = _union(ids, scores.shape[-1])
            chosen = scores.gather(2, ids[:, None].expand(-1, n, -1))
            if live is not None:
                chosen = chosen.masked_fill(~live[:, None], IMPOSSIBLE)
            steps = (self.transitions.pairs(ids, ids),) * (n - 1) if n > 1 else ()
        else:
            chosen = scores.gather(2, ids)
            steps = self.transitions.pairs(ids[:, :-1], ids[:, 1:]).unbind(1)
        if self.boundary:
            first = ids if self.union else ids[:, 0]
            before = self.transitions.pairs(last[:, None], first)[..., 0]
            chosen = torch.cat([chosen[:, :1] + before[:, None], chosen[:, 1:]], 1)
        return Lattice(ids, chosen, steps)


def best_path(lattice: Lattice) -> Path:
    """Viterbi: the best score of a path to each state, then back from the best last state."""
    scores = lattice.scores.unbind(1)
    reached = [scores[0]]
    for step, score in zip(lattice.steps, scores[1:], strict=True):
        reached.append((step + reached[-1][:, None]).amax(-1).add_(score))
    top, state = reached[-1].max(-1)
    states = [state]
    rows = _row_starts(state, lattice.scores.shape[-1])
    for step, before in zip(reversed(lattice.steps), reversed(reached[:-1]), strict=True):
        into = step.flatten(0, 1).index_select(0, state if rows is None else state + rows)
        state = into.add_(before).argmax(-1)
        states.append(state)
    return _path(lattice, states, top == IMPOSSIBLE)


def sampled_path(lattice: Lattice, uniform: Tensor) -> Path:
    """Forward: the mass of all paths to each state; backward: draw the last state, then into it.

    Masses are scaled to a maximum of 1 at every position.
    """
    lowest = torch.finfo(lattice.scores.dtype).min
    tops = lattice.scores.amax(-1, keepdim=True).clamp(min=lowest)
    weights = (lattice.scores - tops).exp().unbind(1)
    steps = _exponentials(lattice.steps)
    mass = [weights[0]]
    tiny = torch.finfo(lattice.scores.dtype).tiny
    for step, weight in zip(steps, weights[1:], strict=True):
        arrived = torch.bmm(step, mass[-1][..., None])[..., 0].mul_(weight)
        mass.append(arrived.div_(arrived.amax(-1, keepdim=True).clamp_(min=tiny)))
    width = lattice.scores.shape[-1]
    state = _draw(mass[-1], uniform[:, -1])
    states = [state]
    rows = _row_starts(state, width)
    for position in range(len(steps) - 1, -1, -1):
        into = steps[position].flatten(0, 1)
        into = into.index_select(0, state if rows is None else state + rows)
        state = _draw(into.mul_(mass[position]), uniform[:, position])
        states.append(state)
    return _path(lattice, states, mass[-1].amax(-1) == 0)


def _exponentials(steps: tuple[Tensor, ...]) -> list[Tensor]:
    """Probabilities of log ones; steps that are one tensor stay one."""
    done: dict[int, Tensor] = {}
    for step in steps:
        if id(step) not in done:
            done[id(step)] = step.exp()
    return [done[id(step)] for step in steps]


def _draw(mass: Tensor, uniform: Tensor) -> Tensor:
    """A state a row; any where there is no mass."""
    return draw(mass, uniform).clamp_(max=mass.shape[-1] - 1)


def _path(lattice: Lattice, states: list[Tensor], dead: Tensor) -> Path:
    """Tokens of states given last position first; each head's likeliest where all is dead."""
    found = torch.stack(states[::-1], 1)
    states_or = torch.where(dead[:, None], lattice.scores.argmax(-1), found)
    return Path(lattice.tokens(states_or), dead)


def _row_starts(state: Tensor, width: int) -> Tensor | None:
    """Where each batch row's states begin when all are counted through; None for one row."""
    return None if len(state) == 1 else torch.arange(len(state), device=state.device) * width


def _union(ids: Tensor, vocab: int) -> tuple[Tensor, Tensor | None]:
    """Distinct ids of [batch, n, k], ascending: [batch, m], and which of them count (None: all)."""
    if ids.device.type == "cpu" and len(ids) == 1:
        return torch.unique(ids)[None], None
    flat = ids.flatten(1).sort(-1).values
    again = torch.cat([flat.new_zeros(len(flat), 1), flat[:, 1:] == flat[:, :-1]], 1).bool()
    flat = flat.masked_fill(again, vocab).sort(-1).values
    live = flat < vocab
    if flat.device.type == "cpu":
        width = int(live.sum(1).max())
        flat, live = flat[:, :width], live[:, :width]
    return flat.clamp(max=vocab - 1), live
