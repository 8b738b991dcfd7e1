"""Log transition probabilities between codes on a device, looked up for sets of candidates.

Small vocabularies have a table. A large one (65,536 codes) has the seen pairs as ascending keys, in
which a pair is found by binary search, and for the others a number of the row and of the column.
`weight` (lambda) multiplies the logarithm. Imports torch only.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float, Int64, Integer
from torch import Tensor

Before = Int64[Tensor, "*rows m"]
After = Int64[Tensor, "*rows k"]
Logarithms = Float[Tensor, "*rows k m"]
TABLE = 4096  # codes up to which a table is held: 64 MiB in float32
IMPOSSIBLE = float("-inf")


class Transitions(Protocol):
    """log Q, the probability of one code after another."""

    @property
    def ids(self) -> int:
        """Codes and the ids after them."""

    @property
    def arrays(self) -> dict[str, Tensor]:
        """Its numbers as a native search reads them (`Transitions` in native.h)."""

    @property
    def size(self) -> int:
        """Codes. Ids after them (stop ids) may be asked for too: nothing leads to or from them."""

    def pairs(self, before: Before, after: After) -> Logarithms:
        """Logarithms of Q for each of `before` and `after`."""


class DenseTransitions:
    """All log probabilities, float [ids, ids], the code before along the rows; `size` are codes."""

    def __init__(self, log_probs: Tensor, size: int | None = None) -> None:
        self.ids = len(log_probs)
        self.size = self.ids if size is None else size
        self.after = log_probs.T.contiguous()  # candidates are ascending: rows are read in order

    @property
    def arrays(self) -> dict[str, Tensor]:
        """Return the arrays that a native search reads."""
        return {"table": self.after}

    def pairs(self, before: Before, after: After) -> Logarithms:
        """See `Transitions`."""
        place = (after * self.ids)[..., None] + before[..., None, :]
        return self.after.view(-1).index_select(0, place.view(-1)).view(place.shape)


class SparseTransitions:
    """Seen pairs only: keys before * ids + after, int64 ascending, and their log probabilities.

    Another pair has row[before] + column[after], both [ids].
    """

    def __init__(self, keys: Tensor, seen: Tensor, row: Tensor, column: Tensor, size: int) -> None:
        self.size, self.ids = size, len(row)
        self.arrays = {"keys": keys, "seen": seen, "row": row, "column": column}

    def pairs(self, before: Before, after: After) -> Logarithms:
        """See `Transitions`."""
        keys, seen, row, column = self.arrays.values()
        other = column[after][..., None] + row[before][..., None, :]
        if not len(keys):
            return other
        wanted = after[..., None] + (before * self.ids)[..., None, :]
        place = torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)
        return torch.where(keys[place] == wanted, seen[place], other)


@dataclass(frozen=True)
class TransitionTable:
    """CSR arrays as `caches.transitions` has them."""

    offsets: Int64[Tensor, " size_and_1"]
    columns: Integer[Tensor, " pairs"]
    seen: Float[Tensor, " pairs"]
    row: Float[Tensor, " size"]
    column: Float[Tensor, " size"]

    def on(
        self, device: torch.device, *, ids: int, weight: float
    ) -> DenseTransitions | SparseTransitions:
        """Transitions among `ids` ids, of which the first are codes; a table where it is small.

        ValueError for a weight below 0; 0 makes every transition as probable.
        """
        if not weight >= 0:
            raise ValueError(
                f"viterbi.weight {weight} is below 0; 0 ignores transitions, 1 counts them plainly"
            )
        size = len(self.row)
        seen, row, column = (_weighted(x, weight) for x in (self.seen, self.row, self.column))
        row, column = (F.pad(part, (0, ids - size), value=IMPOSSIBLE) for part in (row, column))
        keys = torch.repeat_interleave(self.offsets.diff()) * ids + self.columns.long()
        if ids > TABLE:
            keys, seen, row, column = (x.to(device) for x in (keys, seen, row, column))
            return SparseTransitions(keys, seen, row, column, size)
        table = (row[:, None] + column).contiguous()
        table.view(-1)[keys] = seen
        return DenseTransitions(table.to(device), size)


def _weighted(logs: Float[Tensor, " n"], weight: float) -> Float[Tensor, " n"]:
    return torch.zeros_like(logs) if weight == 0 else logs * weight
