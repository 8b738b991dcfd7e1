"""Embeddings of speech codes that keep the codec's geometry.

Trained freely, a small target gives each code its own direction, and codes that sound alike end up
hardly closer than others. PCG's groups and listeners both depend on that closeness. So
after each step the table is pulled towards a rotated and scaled copy of the codebook. The rotation
is the one that fits the table best, so training decides it; the distances are the codec's.
"""

import torch
from jaxtyping import Float
from torch import Tensor


class AcousticPull:
    """Move embeddings a share of the way to `scale * (codebook - mean) @ rotation + offset`."""

    def __init__(self, codebook: Float[Tensor, "codes features"], share: float) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"acoustic_pull {share} is outside [0, 1]; 0 leaves embeddings free")
        self._codebook = codebook - codebook.mean(0)
        self._inverse = torch.linalg.pinv(self._codebook)
        self._share = share

    def image(self, table: Float[Tensor, "codes hidden"]) -> Float[Tensor, "codes hidden"]:
        """Return the codebook mapped into the table's space, with the table's mean and spread.

        The rotation is the polar factor of the least-squares map from codebook to table (orthogonal
        Procrustes would weigh directions by the codebook's variance; this weighs them alike).
        """
        offset = table.mean(0)
        left, _, right = torch.linalg.svd(self._inverse @ (table - offset), full_matrices=False)
        rotated = self._codebook @ (left @ right)
        image: Tensor = offset + rotated * ((table - offset).norm() / rotated.norm())
        return image

    @torch.no_grad()
    def __call__(self, table: Float[Tensor, "codes hidden"]) -> None:
        """Pull `table` in place."""
        if self._share:
            table.lerp_(self.image(table), self._share)
