"""A postnet (as Tacotron 2's): what a token and its neighbours say of the token's features.

A codebook entry is the mean of all speech that it stands for. Which of it is meant, its neighbours
tell: a small network adds to each token's features what they foretell of the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from jaxtyping import Float32
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
    def of(cls, arrays: dict[str, NDArray[np.float32]]) -> Self | None:
        """From what `arrays` gave; None where it is not among them."""
        names = [f"postnet.{field.name}" for field in fields(cls)]
        return cls(*(arrays[name] for name in names)) if set(names) <= set(arrays) else None

    def suits(self, size: int) -> bool:
        """Whether it mends tokens of that size, and knows what to say."""
        shapes = [array.shape for array in self.arrays.values()]
        units, heard = len(self.inner_bias), (2 * NEIGHBOURS + 1) * size
        finite = all(np.isfinite(array).all() for array in self.arrays.values())
        return finite and shapes == [(units, heard), (units,), (size, units), (size,)]


def windows(tokens: Float32[np.ndarray, "tokens size"]) -> Float32[np.ndarray, "tokens inputs"]:
    """Each token between its neighbours; where there is none the outermost token stands for it."""
    count, each = len(tokens), np.arange(-NEIGHBOURS, NEIGHBOURS + 1)
    places = np.clip(np.arange(count)[:, None] + each, 0, max(0, count - 1))
    heard: NDArray[np.float32] = tokens[places].reshape(count, len(each) * tokens.shape[1])
    return heard
