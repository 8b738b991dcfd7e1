"""Measure how far a target's embeddings agree with distances in the codebook.

PCG's groups depend on it: where the cosine of two embeddings says nothing about how alike two
tokens sound, a group is a random set. Groups use the *nearest* tokens only, so a rank correlation
over all pairs is not enough: the codebook distances of those nearest by cosine count.
"""

from typing import Any

import torch
from torch import Tensor

TOKENS = 2048  # at most, drawn once; 2 million pairs
NEAREST = 50  # by cosine; a group has about as many


def likeness(unit: Tensor, codebook: Tensor) -> dict[str, Any]:
    """Compare the cosines of `unit` with closeness in `codebook`, over pairs of tokens.

    unit: float32 [tokens, size], rows of length 1; codebook: float32 [tokens, features]. Return
    spearman: rank correlation of cosine with minus the Euclidean codebook distance (1: the same
    order, 0: no relation), over all pairs; nearest: the number of tokens nearest by cosine that the
    next two consider; percentile: mean percentile of their codebook distance among all other tokens
    (0: the closest, 50: chance); overlap: share of them among as many closest in the codebook.
    """
    n = len(unit)
    if n < 3:
        return {"tokens": n, "spearman": None, "nearest": 0, "percentile": None, "overlap": None}
    chosen = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:TOKENS].sort().values
    vectors, entries = (x.cpu()[chosen].float() for x in (unit, codebook))
    cosine, distance = vectors @ vectors.T, torch.cdist(entries, entries)
    first, second = torch.triu_indices(len(chosen), len(chosen), 1)
    spearman = _correlation(_ranks(cosine[first, second]), _ranks(-distance[first, second]))
    own = torch.eye(len(chosen), dtype=torch.bool)
    near = min(NEAREST, len(chosen) - 2)
    nearest = cosine.masked_fill(own, -torch.inf).topk(near, -1).indices
    rank = distance.masked_fill(own, -1.0).argsort(-1).argsort(-1) - 1  # 0: the closest other
    of_nearest = rank.gather(-1, nearest).double()
    return {
        "tokens": len(chosen),
        "spearman": round(spearman, 4),
        "nearest": near,
        "percentile": round(100 * float(of_nearest.mean()) / (len(chosen) - 2), 2),
        "overlap": round(float((of_nearest < near).double().mean()), 4),
    }


def _ranks(values: Tensor) -> Tensor:
    """Return ranks, float64 [n]; ties, which are rare, have any order."""
    ranks = torch.empty(len(values), dtype=torch.float64)
    ranks[values.argsort()] = torch.arange(len(values), dtype=torch.float64)
    return ranks


def _correlation(a: Tensor, b: Tensor) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float((a @ b) / (a.norm() * b.norm()))
