"""PCG's swap test: does a group hold tokens that may stand for each other?

Yanuka et al., 2025, arXiv 2511.13732, table 2: in sequences that the target made, every token whose
group has more than one member is replaced by a uniform draw from its group (itself included).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from speculative_tts.decoding.randomness import AUXILIARY, uniforms


@dataclass(frozen=True)
class Swapped:
    """Codes after the swap; how many were drawn again, and how many of these changed."""

    codes: list[int]
    swapped: int
    changed: int


def swap(codes: Sequence[int], groups: Mapping[str, NDArray[Any]], seed: int, id_: str) -> Swapped:
    """Each code drawn again from its own group G(t), with randomness keyed as in decoding.

    groups: arrays own [tokens], group_offsets [groups + 1], group_tokens [members] of
    `caches.provide`. The uniforms are those of a draw that autoregressive decoding does not make,
    so they are independent of how the codes were sampled.
    """
    tokens = np.asarray(codes, dtype=np.int64)
    group = groups["own"][tokens]
    first = groups["group_offsets"][group].astype(np.int64)
    size = groups["group_offsets"][group + 1] - first
    uniform = uniforms(seed, [id_], len(tokens), device=torch.device("cpu"))[0, :, AUXILIARY]
    drawn = groups["group_tokens"][first + np.floor(uniform.numpy() * size).astype(np.int64)]
    return Swapped(
        drawn.astype(np.int64).tolist(), int((size > 1).sum()), int((drawn != tokens).sum())
    )
