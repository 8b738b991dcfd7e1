"""Path search over the candidates of n heads (Nguyen et al., 2025, arXiv 2410.13839, Algorithm 1).

    best    argmax over paths of  S_1(a_1) prod_t Q(a_{t-1}, a_t) S_t(a_t)
    sample  a path drawn with that as its weight: forward filtering, backward sampling

S_t is head t's probability and Q the transitions'. States are the likeliest tokens of any head
(`union`, each with its true S_t) or those of position t's head (`perhead`). Scores are compared up
to a constant of each head, so nothing is normalised. Batched and of fixed shape, with nothing read
by the host; only on a CPU, where reading is free, a union is as wide as it has to be. One exception
to the paper: a block in which no path is possible takes each head's likeliest candidate.

Shapes: m candidates, transitions [batch, m of the later token, m of the earlier]. Torch only: the
reference of the native search (`native/search.cpp`), which a CPU runs, and of a GPU's kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from speculative_tts.decoding.blocks.transitions import IMPOSSIBLE, Transitions
from speculative_tts.decoding.sampling.randomness import draw
from speculative_tts.models.host import readable

States = Int64[Tensor, "batch n"]
PerRow = Int64[Tensor, " batch"]
Scores = Float[Tensor, "batch n vocab"]
Candidates = Int64[Tensor, "batch n k"]


@dataclass(frozen=True)
class Path:
    """Tokens, and the rows in which no path was possible."""

    tokens: States
    dead: Bool[Tensor, " batch"]


@dataclass(frozen=True)
class Lattice:
    """Candidates and weights of the paths through them."""

    ids: Int64[Tensor, "batch n m"] | Int64[Tensor, "batch m"]  # [batch, m]: of all positions
    scores: Float[Tensor, "batch n m"]  # -inf where impossible
    steps: Float[Tensor, "batch step m m"]  # to each later position, or one for all of them
    start: Float[Tensor, "batch m"] | None  # what the step to the first position adds
    vocab: int

    @property
    def first(self) -> Float[Tensor, "batch m"]:
        """Scores at the first position."""
        return self.scores[:, 0] if self.start is None else self.scores[:, 0] + self.start

    def tokens(self, states: States) -> States:
        """States as ids."""
        if self.ids.ndim == 2:
            return self.ids.gather(1, states)
        return self.ids.gather(2, states[..., None])[..., 0]


@dataclass(frozen=True)
class PathSearch:
    """Search a lattice for a path: `top_k` candidates a head, and the transitions between them.

    `union` gives all positions the candidates of all heads; `boundary` counts Q(last, a_1) too.
    """

    transitions: Transitions
    top_k: int
    union: bool = True
    boundary: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= self.transitions.size:
            raise ValueError(
                f"viterbi.top_k {self.top_k} is not in 1 to {self.transitions.size}, the codes"
            )

    def best(self, scores: Scores, last: PerRow) -> Path:
        """The most probable path of log scores, -inf for ids that no path may take."""
        ids = scores.topk(self.top_k, -1).indices
        return best_path(self._lattice(ids, scores, last))

    def sample(
        self, scores: Scores, ids: Candidates, last: PerRow, uniform: Float64[Tensor, "batch n"]
    ) -> Path:
        """A path drawn by uniforms among candidates."""
        return sampled_path(self._lattice(ids, scores, last), uniform)

    def walk(self, scores: Scores, ids: Candidates, last: PerRow) -> "Walk":
        """The distribution of the same drawn path, token by token from its beginning."""
        return Walk(self._lattice(ids, scores, last))

    def _lattice(self, ids: Candidates, scores: Scores, last: PerRow) -> Lattice:
        n = ids.shape[1]
        if self.union:
            ids, live = _union(ids, scores.shape[-1])
            chosen = scores.gather(2, ids[:, None].expand(-1, n, -1))
            if live is not None:
                chosen = chosen.masked_fill(~live[:, None], IMPOSSIBLE)
            steps = self.transitions.pairs(ids, ids)[:, None]
        else:
            chosen = scores.gather(2, ids)
            steps = self.transitions.pairs(ids[:, :-1], ids[:, 1:])
        start = None
        if self.boundary:
            first = ids if self.union else ids[:, 0]
            start = self.transitions.pairs(last[:, None], first)[..., 0]
        return Lattice(ids, chosen, steps, start, scores.shape[-1])


def best_path(lattice: Lattice) -> Path:
    """Viterbi: the best score of a path to each state and its state before, then back."""
    later = lattice.scores[:, 1:].unbind(1)
    steps = lattice.steps.expand(-1, len(later), -1, -1).unbind(1)
    reached, back = lattice.first, []
    for step, score in zip(steps, later, strict=True):
        best, before = (step + reached.unsqueeze(1)).max(-1)
        reached = best + score
        back.append(before)
    top, state = reached.max(-1, keepdim=True)
    return _path(lattice, _followed(back, state), top)


def sampled_path(lattice: Lattice, uniform: Float64[Tensor, "batch n"]) -> Path:
    """Forward: the mass of all paths to each state; backward: draw the last state, then into it.

    Masses are logarithms: of a path that is 1e-40 as probable as another one at some position, the
    product would be 0 in float32, and dead where it alone goes on. What would be drawn before each
    state is looked up for all of them at once.
    """
    later = lattice.scores[:, 1:].unbind(1)
    steps = lattice.steps.expand(-1, len(later), -1, -1).unbind(1)
    reached, into = lattice.first, []
    for step, score in zip(steps, later, strict=True):
        into.append(step + reached.unsqueeze(1))
        reached = into[-1].logsumexp(-1) + score
    back: tuple[Tensor, ...] = ()
    if into:
        arrivals = torch.stack(into, 1)
        back = _draw(arrivals, uniform[:, :-1, None].expand(arrivals.shape[:-1])).unbind(1)
    state = _draw(reached, uniform[:, -1])[:, None]
    return _path(lattice, _followed(back, state), reached.amax(-1, keepdim=True))


class Walk:
    """A drawn path one token at a time: its distribution is that of `sampled_path`.

    Backward messages, the log mass of all ways on from each state to the end, weigh the states:
    P(x_t | x_<t) goes with Q(x_{t-1}, x_t) S_t(x_t) exp(message_t(x_t)).
    """

    def __init__(self, lattice: Lattice) -> None:
        later = lattice.scores[:, 1:].unbind(1)
        self._lattice = lattice
        self._steps = lattice.steps.expand(-1, len(later), -1, -1).unbind(1)
        messages = [torch.zeros_like(lattice.first)]
        for step, score in zip(self._steps[::-1], later[::-1], strict=True):
            messages.append((step + (score + messages[-1])[..., None]).logsumexp(1))
        self._messages = messages[::-1]
        self._masses = torch.empty(0)

    def law(self, place: int, before: PerRow | None) -> Float[Tensor, "batch vocab"]:
        """Law of the token at a place given the one before it.

        Places are asked for in order. Where no path is possible each head's own candidates count,
        and all alike where those are impossible too.
        """
        own = self._lattice.scores[:, place]
        reached = self._lattice.first if before is None else own + self._into(place, before)
        masses = reached + self._messages[place]
        for instead in (own, torch.zeros_like(own)):
            dead = masses.amax(-1, keepdim=True) == IMPOSSIBLE
            masses = torch.where(dead, instead, masses)
        self._masses = masses.softmax(-1)
        ids, vocab = self._ids(place), self._lattice.vocab
        return self._masses.new_zeros(len(own), vocab).scatter_add_(1, ids, self._masses)

    def _into(self, place: int, before: PerRow) -> Float[Tensor, "batch m"]:
        """Log transitions from the state of token `before`, any where it is no candidate."""
        match = (self._ids(place - 1) == before[:, None]) & (self._masses > 0)
        state = match.long().argmax(-1)
        return self._steps[place - 1][torch.arange(len(state), device=state.device), :, state]

    def _ids(self, place: int) -> Int64[Tensor, "batch m"]:
        ids = self._lattice.ids
        return ids if ids.ndim == 2 else ids[:, place]


def _followed(back: Sequence[Int64[Tensor, "batch m"]], last: Int64[Tensor, "batch 1"]) -> States:
    """States from the last one and `back`: what comes before each state."""
    states = [last]
    for before in reversed(back):
        states.append(before.gather(1, states[-1]))
    return torch.cat(states[::-1], 1)


def _draw(
    logs: Float[Tensor, "*rows m"], uniform: Float64[Tensor, "*rows"]
) -> Int64[Tensor, "*rows"]:
    """A state a row by logarithms of masses; any where there is no mass."""
    top = logs.amax(-1, keepdim=True).clamp(min=torch.finfo(logs.dtype).min)
    return draw((logs - top).exp(), uniform).clamp_(max=logs.shape[-1] - 1)


def _path(lattice: Lattice, states: States, top: Float[Tensor, "batch 1"]) -> Path:
    """Tokens of states; each head's likeliest candidates where `top` is impossible.

    top: a score of the best path.
    """
    dead = top == IMPOSSIBLE
    if readable(dead) and not dead.any():
        return Path(lattice.tokens(states), dead[:, 0])
    found = torch.where(dead, lattice.scores.argmax(-1), states)
    return Path(lattice.tokens(found), dead[:, 0])


def _union(
    ids: Candidates, vocab: int
) -> tuple[Int64[Tensor, "batch m"], Bool[Tensor, "batch m"] | None]:
    """Distinct ids, ascending, and which of them count (None: all)."""
    if readable(ids) and len(ids) == 1:
        found = torch.zeros(vocab, dtype=torch.bool)
        found[ids.view(-1)] = True
        return found.nonzero().T, None
    flat = ids.flatten(1).sort(-1).values
    again = torch.cat([flat.new_zeros(len(flat), 1), flat[:, 1:] == flat[:, :-1]], 1).bool()
    flat = flat.masked_fill(again, vocab).sort(-1).values
    live = flat < vocab
    if readable(flat):
        width = int(live.sum(1).max())
        flat, live = flat[:, :width], live[:, :width]
    return flat.clamp(max=vocab - 1), live
