"""Name what the kernels of a path search are compiled for, without torch and Triton."""

from typing import NamedTuple


class PathConstants(NamedTuple):
    """Constants of the kernels that go through a lattice (`kernels.lattice`)."""

    size: int  # states of a position, a power of two
    tile: int
    shared: bool  # all positions have the same states
    boundary: bool  # the code before counts
    stops: bool  # there are stop ids
    dense: bool  # transitions are a table
    steps: int  # of a binary search among pairs
