"""Apply a postnet (as Tacotron 2's) that corrects a token's features by its neighbours.

A codebook entry is the mean of all speech that it stands for. The neighbours tell which part of
that speech is meant: a small network predicts the difference from them and adds it to the features.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from jaxtyping import Float32, Int64
from numpy.typing import NDArray

NEIGHBOURS = 1
"""Tokens on either side that the postnet reads: a stream waits for as many."""


@dataclass(frozen=True)
class Postnet:
    """One hidden layer of rectified units over a token and its neighbours."""

    inner: Float32[np.ndarray, "units inputs"]  # inputs: (2 NEIGHBOURS + 1) x size
    inner_bias: Float32[np.ndarray, " units"]
    outer: Float32[np.ndarray, "size units"]
    outer_bias: Float32[np.ndarray, " size"]

    def __call__(
        self, tokens: Float32[np.ndarray, "tokens size"]
    ) -> Float32[np.ndarray, "tokens size"]:
        """Return corrected features of all tokens.

        Each token is computed by itself, so that it does not depend, to the last bit, on how many
        tokens come later.
        """
        changes = [
            self.outer @ np.maximum(self.inner @ inputs + self.inner_bias, 0) + self.outer_bias
            for inputs in windows(tokens)
        ]
        better: NDArray[np.float32] = tokens + np.array(changes, np.float32).reshape(tokens.shape)
        return better

    @property
    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The arrays by the names under which they are stored."""
        return {f"postnet.{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, arrays: dict[str, NDArray[np.float32]], size: int) -> Self:
        """Restore from `arrays`, for tokens of that size; raise ValueError for a damaged one."""
        parts = [arrays.get(f"postnet.{field.name}", np.zeros(0)) for field in fields(cls)]
        units, inputs = parts[1].size, (2 * NEIGHBOURS + 1) * size
        shapes = [(units, inputs), (units,), (size, units), (size,)]
        if [part.shape for part in parts] != shapes or not all(np.isfinite(p).all() for p in parts):
            raise ValueError("its postnet is damaged")
        return cls(*parts)


def windows(tokens: Float32[np.ndarray, "tokens size"]) -> Float32[np.ndarray, "tokens inputs"]:
    """Join each token's features with its neighbours', in order."""
    joined: NDArray[np.float32] = tokens[neighbours(len(tokens))].reshape(
        len(tokens), (2 * NEIGHBOURS + 1) * tokens.shape[1]
    )
    return joined


def neighbours(count: int) -> Int64[np.ndarray, "tokens window"]:
    """Return the indices of each token's window; the outermost token stands for missing ones."""
    around = np.arange(count)[:, None] + np.arange(-NEIGHBOURS, NEIGHBOURS + 1)
    inside: NDArray[np.int64] = np.clip(around, 0, max(0, count - 1))
    return inside
