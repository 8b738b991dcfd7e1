"""Uniform numbers keyed by (seed, utterance id, output position).

Batches, shards and resumed runs draw the same ones.

A position keeps its uniforms when it is drafted again after a rejection. That is exact: what is
emitted at a position depends on its own uniforms and the tokens before it, and a draft thrown away
decided nothing that was kept. A rule that judges whole blocks looks at such drafts: its rounds have
uniforms of their own (`BatchState.renew`).
"""

from collections.abc import Sequence
from hashlib import shake_256

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from speculative_tts.decoding.gpu import draws
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.native import sample

# Draws of a position: draft a token, accept it, for rules that need one more, residual or bonus.
DRAFT, ACCEPT, AUXILIARY, NEXT = range(4)
DRAWS = 4


def uniforms(
    keys: Sequence[tuple[int, str]], positions: int, *, device: torch.device
) -> Float64[Tensor, "batch positions draws"]:
    """Return uniforms in [0, 1) for each (seed, utterance), position and draw.

    Multiples of 2^-53, all that float64 has there: of the largest too u * total < total. A stream
    is SHAKE-256 of its key, not a torch generator: that one keeps 32 bits of a seed, so that of
    300,000 ids a few share all.
    """
    shape = (len(keys), positions, DRAWS)
    texts = (f"{seed}\0{utterance}".encode() for seed, utterance in keys)
    words = b"".join(shake_256(text).digest(8 * positions * DRAWS) for text in texts)
    drawn = (np.frombuffer(words, "<u8") >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return torch.from_numpy(drawn).view(shape).to(device)


def draw(
    probs: Float[Tensor, "*rows vocab"], uniform: Float64[Tensor, "*rows"]
) -> Int64[Tensor, "*rows"]:
    """Draw one token per row by inverse CDF, from any positive mass.

    A token without mass is never drawn: its step of the cumulative sum is empty, and the search is
    strict. Where there is no distribution (all mass 0, or NaN) the result is `vocab`, which is no
    id.
    """
    if sample.runs(probs):
        return sample.draw(probs, uniform)
    if probs.dtype is torch.float32 and runs(probs):
        return draws.draw(probs, uniform)
    cumulative = probs.cumsum(-1, dtype=torch.float64)
    level = uniform[..., None] * cumulative[..., -1:]
    return torch.searchsorted(cumulative, level, right=True)[..., 0]
