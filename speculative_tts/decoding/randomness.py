"""Uniform numbers keyed by (seed, utterance id, output position).

Batches, shards and resumed runs draw the same ones.

A position keeps its uniforms when it is drafted again after a rejection. That is exact: what is
emitted at a position depends on its own uniforms and the tokens before it, and a draft thrown away
decided nothing that was kept.
"""

import hashlib

import torch
from torch import Tensor

# Draws of a position: draft a token, accept it, for rules that need one more, residual or bonus.
DRAFT, ACCEPT, AUXILIARY, NEXT = range(4)
DRAWS = 4


def uniforms(seed: int, ids: list[str], positions: int, *, device: torch.device) -> Tensor:
    """Uniforms in [0, 1) for each utterance, position and draw: float64 [batch, positions, DRAWS].

    They lie on the float32 grid (multiples of 2^-24), so u * total < total also after rounding in
    float64.
    """
    rows = [torch.rand(positions, DRAWS, generator=_generator(seed, id_)) for id_ in ids]
    return torch.stack(rows).double().to(device)


def _generator(seed: int, utterance: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}\0{utterance}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def draw(probs: Tensor, uniform: Tensor) -> Tensor:
    """Inverse-CDF sample of one token per row.

    probs: float [..., vocab], of any positive mass; uniform: float64 [...]. Returns int64 [...]. A
    token without mass is never drawn: its step of the cumulative sum is empty, and the search is
    strict.
    """
    cumulative = probs.cumsum(-1, dtype=torch.float64)
    level = uniform[..., None] * cumulative[..., -1:]
    return torch.searchsorted(cumulative, level, right=True)[..., 0]
