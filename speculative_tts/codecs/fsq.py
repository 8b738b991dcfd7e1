"""Decode finite scalar quantisation (Mentzer et al., 2023): a code is a number written in levels.

X-Codec2 and NeuCodec have eight dimensions of four levels; code = sum of digit_i * 4^i.
"""

import numpy as np

LEVELS = (4,) * 8


def digits(codes: np.ndarray, levels: tuple[int, ...] = LEVELS) -> np.ndarray:
    """Return the digits of codes, least significant first: int64 [codes, dimensions]."""
    places = np.cumprod([1, *levels[:-1]])
    written: np.ndarray = codes[:, None] // places % np.array(levels)
    return written


def values(codes: np.ndarray, levels: tuple[int, ...] = LEVELS) -> np.ndarray:
    """Return the values of codes, (digit - 2) / 2 for four levels: float32 [codes, dimensions]."""
    half = np.array(levels) // 2
    scaled: np.ndarray = ((digits(codes, levels) - half) / half).astype(np.float32)
    return scaled
