"""A weight for products with one row (a step), a few rows (verification) and many (prefill).

On a CPU one row is bound by reading the weight. A few rows should cost the same, but a BLAS first
copies the weight into the order its kernel wants, and the product takes about twice as long. A
second copy of the weight as panels of 32 columns needs no such step: each panel is one small
product. It costs memory, so large models go without (see `COPIES`). Verification of 4 tokens by
CosyVoice 2's LM took 213 ms without and 90 ms with panels, beside 75 to 87 ms for one token.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

PANEL = 32  # columns
NARROW = 256  # columns below which panels gain nothing
FEW = range(3, 17)  # rows at which panels win; a draft's steps of 1 or 2 do without the memory
COPIES = 2 << 30  # bytes of panels that one decoder may hold


class Matrix:
    """x @ weight (+ addend), the weight [in, out] and contiguous."""

    def __init__(self, weight: Tensor, *, panels: bool = True) -> None:
        self.weight = weight
        self._wanted = panels and has_panels(weight)
        self._panels: Tensor | None = None  # made when first needed

    def __call__(self, x: Tensor, addend: Tensor | None = None) -> Tensor:
        """x: [rows, in]; addend: [out] or [rows, out]. Returns [rows, out]."""
        if not self._wanted or len(x) not in FEW:
            if addend is None:
                return torch.mm(x, self.weight)
            return torch.addmm(addend, x, self.weight)
        if self._panels is None:
            self._panels = _panels(self.weight)
        parts = torch.bmm(x.expand(len(self._panels), -1, -1), self._panels).transpose(0, 1)
        out = parts.reshape(len(x), -1)[:, : self.weight.shape[1]]
        return out if addend is None else out.add_(addend)


def has_panels(weight: Tensor) -> bool:
    """Would a second copy of it pay?"""
    return (
        weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.shape[1] >= NARROW
    )


def panels_fit(weights: Iterable[Tensor]) -> bool:
    """May all of them have their second copy?"""
    return sum(weight.nbytes for weight in weights if has_panels(weight)) <= COPIES


def _panels(weight: Tensor) -> Tensor:
    """[in, out] as [panels, in, PANEL], zeros behind the last column."""
    whole = F.pad(weight, (0, -weight.shape[1] % PANEL))
    return whole.view(len(weight), -1, PANEL).transpose(0, 1).contiguous()
