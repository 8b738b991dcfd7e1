"""Pre-allocated keys and values of every layer.

The cache is storage only: how much of a row is valid is the `start` that the caller hands to
`extend`, so rolling back is lowering a number and never a copy.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KVCache:
    """keys and values: [layers, batch, kv_heads, capacity, head_dim].

    offsets: int64 [batch, 1, kv_heads], where a layer's positions of each head begin when counted
    through.
    """

    keys: Tensor
    values: Tensor
    offsets: Tensor

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
            torch.arange(batch * kv_heads, device=device).view(batch, 1, kv_heads) * capacity,
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
        rows = slice(index, index + 1)
        return KVCache(self.keys[:, rows], self.values[:, rows], self.offsets[:1])
