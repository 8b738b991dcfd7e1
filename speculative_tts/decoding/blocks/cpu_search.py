"""Best paths on a CPU: `viterbi.best_path` in NumPy, a row at a time, mostly in less time.

With 8 heads and 25 candidates a torch operation costs several times its arithmetic. The sums are
those of the reference in the same order, so scores equal its own bit for bit.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from speculative_tts.decoding.blocks.transitions import IMPOSSIBLE, DenseTransitions, Transitions

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class LatticeSettings:
    """Hold `top_k` candidates a head and the transitions between them.

    `union` gives all positions the candidates of all heads; `boundary` counts Q(last, a_1) too.
    """

    transitions: Transitions
    top_k: int
    union: bool = True
    boundary: bool = False


def best_paths(
    search: LatticeSettings, scores: Float[Tensor, "batch n vocab"], last: Int64[Tensor, " batch"]
) -> tuple[Int64[Tensor, "batch n"], Bool[Tensor, " batch"]]:
    """Tokens, and in which rows no path was possible; scores: -inf for ids that none may take."""
    rows = [_best_path(search, *row) for row in zip(scores.numpy(), last.tolist(), strict=True)]
    tokens, dead = zip(*rows, strict=True)
    return torch.from_numpy(np.stack(tokens)), torch.from_numpy(np.array(dead))


def _best_path(search: LatticeSettings, scores: Scores, last: int) -> tuple[Ids, bool]:
    """One row: scores [n, vocab]."""
    n = len(scores)
    ids = np.argpartition(scores, -search.top_k)[:, -search.top_k :]
    if search.union:
        wanted = np.zeros(scores.shape[1], dtype=bool)
        wanted[ids] = True
        ids = np.flatnonzero(wanted)
        own, first, steps = scores.take(ids, 1), ids, [_pairs(search, ids, ids)] * (n - 1)
    else:
        own, first = scores[np.arange(n)[:, None], ids], ids[0]
        steps = list(_pairs(search, ids[:-1], ids[1:]))
    reached, arrivals = own[0], []
    if search.boundary:
        reached = reached + _pairs(search, np.array([last]), first)[0]
    for step, score in zip(steps, own[1:], strict=True):
        arrivals.append(step + reached[:, None])
        reached = arrivals[-1].max(0) + score
    state = reached.argmax()
    if reached[state] == IMPOSSIBLE:
        return _tokens(ids, own.argmax(1)), True
    path = [state]
    for arrival in reversed(arrivals):
        path.append(arrival[:, path[-1]].argmax())
    return _tokens(ids, np.array(path[::-1])), False


def _tokens(ids: Ids, states: Ids) -> Ids:
    """Ids of states [n], of candidates that all positions share [m] or of their own, [n, m]."""
    return ids[states] if ids.ndim == 1 else ids[np.arange(len(ids)), states]


def _pairs(search: LatticeSettings, before: Ids, after: Ids) -> Scores:
    """Log transitions [..., m, k] from each of `before` [..., m] to each of `after` [..., k]."""
    if isinstance(search.transitions, DenseTransitions):
        table = search.transitions.after.numpy()
        return table[after[..., None, :], before[..., None]]
    found = search.transitions.pairs(torch.from_numpy(before), torch.from_numpy(after))
    return found.numpy().swapaxes(-1, -2)
