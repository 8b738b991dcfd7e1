"""Pre-allocated keys and values of every layer.

The cache is storage only: how much of a row is valid is the `start` that the caller hands to
`extend`, so rolling back is lowering a number and never a copy.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KVCache:
    """keys and values: [layers, batch, kv_heads, capacity, head_dim]."""

    keys: Tensor
    values: Tensor

    @classmethod
    def allocate(
        cls,
        layers: int,
        batch: int,
        kv_heads: int,
        capacity: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> "KVCache":
        """Zeros: what is never written is masked, but NaN garbage would pass through a mask."""
        shape = (layers, batch, kv_heads, capacity, head_dim)
        return cls(
            torch.zeros(shape, dtype=dtype, device=device),
            torch.zeros(shape, dtype=dtype, device=device),
        )

    @property
    def batch(self) -> int:
        """Rows."""
        return self.keys.shape[1]

    @property
    def capacity(self) -> int:
        """Positions a row can hold."""
        return self.keys.shape[3]

    def row(self, index: int) -> "KVCache":
        """One row as a cache of batch 1 that shares this storage, to prefill ragged prompts."""
        return KVCache(self.keys[:, index : index + 1], self.values[:, index : index + 1])
