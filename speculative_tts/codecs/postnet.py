"""A postnet (as Tacotron 2's): what a token and its neighbours say of the token's features.

A codebook entry is the mean of all speech that it stands for. Which of it is meant, its neighbours
tell: a small network adds to each token's features what they foretell of the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from jaxtyping import Float32, Int64
from numpy.typing import NDArray

NEIGHBOURS = 1
"""Tokens on either side that it hears: a stream waits for as many."""


@dataclass(frozen=True)
class Postnet:
    """One hidden layer of rectified units over a token and its neighbours; see the module."""

    inner: Float32[np.ndarray, "units inputs"]  # inputs: (2 NEIGHBOURS + 1) x size
    inner_bias: Float32[np.ndarray, " units"]
    outer: Float32[np.ndarray, "size units"]
    outer_bias: Float32[np.ndarray, " size"]

    def __call__(
        self, tokens: Float32[np.ndarray, "tokens size"]
    ) -> Float32[np.ndarray, "tokens size"]:
        """The same tokens, nearer to what was said.

        Each is a sum of its own, so that it does not depend, to the last bit, on how many tokens
        come later.
        """
        mended = [
            self.outer @ np.maximum(self.inner @ heard + self.inner_bias, 0) + self.outer_bias
            for heard in windows(tokens)
        ]
        better: NDArray[np.float32] = tokens + np.array(mended, np.float32).reshape(tokens.shape)
        return better

    @property
    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """By the names under which they are stored."""
        return {f"postnet.{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, arrays: dict[str, NDArray[np.float32]], size: int) -> Self:
        """The one that `arrays` gave, for tokens of that size; ValueError for a damaged one."""
        parts = [arrays.get(f"postnet.{field.name}", np.zeros(0)) for field in fields(cls)]
        units, heard = parts[1].size, (2 * NEIGHBOURS + 1) * size
        shapes = [(units, heard), (units,), (size, units), (size,)]
        if [part.shape for part in parts] != shapes or not all(np.isfinite(p).all() for p in parts):
            raise ValueError("its postnet is damaged")
        return cls(*parts)


def windows(tokens: Float32[np.ndarray, "tokens size"]) -> Float32[np.ndarray, "tokens inputs"]:
    """Each token between its neighbours, side by side."""
    heard: NDArray[np.float32] = tokens[places(len(tokens))].reshape(
        len(tokens), (2 * NEIGHBOURS + 1) * tokens.shape[1]
    )
    return heard


def places(count: int) -> Int64[np.ndarray, "tokens heard"]:
    """Which tokens each hears; where there is no neighbour the outermost token stands for it."""
    around = np.arange(count)[:, None] + np.arange(-NEIGHBOURS, NEIGHBOURS + 1)
    inside: NDArray[np.int64] = np.clip(around, 0, max(0, count - 1))
    return inside
