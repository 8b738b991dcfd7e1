"""Name what the kernels of a path search take together: see `arguments`."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class StopIds(NamedTuple):
    """The ids that end the speech."""

    stop_ids: "Tensor"  # int64 [n_stops]
    n_stops: int


class HeadStates(NamedTuple):
    """States of each head's position by its logits: `stride` ids a head, of which some are none."""

    states: "Tensor"  # int32 [heads, stride]
    stride: int


class Endings(NamedTuple):
    """Each head's word on the speech's end, [batch, number] all."""

    over: "Tensor"  # float32, the probability that it has ended, or 1 where that is likelier
    likeliest: "Tensor"  # int64, of the stop ids
    alive: "Tensor"  # bool: there is a distribution


class EndingConstants(NamedTuple):
    """Constants of the kernel that asks heads for the end."""

    stops: int  # at least the stop ids, a power of two; 0 if there are none
    sample: bool
    sure: bool  # it is certain where a stop id is the likeliest


class PathLattice(NamedTuple):
    """Logits of heads and the states of each position, of which `width` are possible."""

    logits: "Tensor"  # float32 [batch, number, vocab]
    states: "Tensor"  # int32 [batch, size], or [batch, number, size]
    is_stop: "Tensor"  # bool [vocab]
    number: int
    width: int
    vocab: int
    temperature: float


class TransitionLogs(NamedTuple):
    """Logarithms of transitions: a table `seen` of ids by ids, or those of `length` seen pairs."""

    keys: "Tensor"  # int64 [length], ascending
    seen: "Tensor"  # float32
    row: "Tensor"  # float32 [n_ids], of pairs that were not seen
    column: "Tensor"  # float32 [n_ids]
    n_ids: int
    length: int


class PathOutcome(NamedTuple):
    """A path that was found, and scratch memory to find it; `laws`, zeros, if it is a draft."""

    reached: "Tensor"  # float32 [batch, 2, size] of scratch memory
    back: "Tensor"  # int32 [batch, number, size] of scratch memory
    block: "Tensor"  # int64 [batch, number]
    dead: "Tensor"  # bool [batch]: no path is possible
    laws: "Tensor | None"  # float32 [batch, number, vocab]


class WalkOutcome(NamedTuple):
    """Distributions of a path that is drawn from its beginning, zeros so far."""

    messages: "Tensor"  # float32 [batch, number, size] of scratch memory: log masses of ways on
    laws: "Tensor"  # float32 [batch, number, vocab]
    sums: "Tensor"  # float64, scratch memory of draws


class PathConstants(NamedTuple):
    """Constants of the kernels that go through a lattice (`kernels.lattice`)."""

    size: int  # states of a position, a power of two
    tile: int
    shared: bool  # all positions have the same states
    boundary: bool  # the code before counts
    stops: bool  # there are stop ids
    sample: bool  # a path is drawn, not the best one
    dense: bool  # transitions are a table
    steps: int  # of a binary search among pairs
