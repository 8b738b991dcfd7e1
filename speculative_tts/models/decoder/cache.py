"""Pre-allocated keys and values of every layer.

The cache is storage only: how much of a row is valid is the `start` that the caller hands to
`extend`, so rolling back is lowering a number and never a copy.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from speculative_tts.native.step import PackedCache

Heads = Float[Tensor, "batch kv_heads span head_dim"]


@dataclass(frozen=True)
class KVCache:
    """Keys and values of all rows, of which this is a batch.

    offsets: where the positions of each key head, then of each
    value head, begin when a layer's positions are counted through. places: what the model adds or
    turns by position; it lives as long as what was captured with it. first: the batch's first row.
    prefills: what `models.gpu.prefill` recorded for this storage.
    """

    storage: Float[Tensor, "layers 2 rows kv_heads capacity head_dim"]
    offsets: Int64[Tensor, "batch 1 2*kv_heads"]
    places: Tensor | None = None
    first: int = 0
    prefills: dict[Any, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def allocate(
        cls,
        sizes: tuple[int, int, int, int, int],
        *,
        dtype: torch.dtype,
        device: torch.device,
        places: Tensor | None = None,
    ) -> "KVCache":
        """Allocate zeros for (layers, batch, kv_heads, capacity, head_dim).

        What is never written is masked, but NaN garbage would pass through a mask.
        """
        layers, batch, kv_heads, capacity, head_dim = sizes
        shape = (layers, 2, batch, kv_heads, capacity, head_dim)
        heads = torch.arange(2 * batch * kv_heads, device=device).view(2, batch, kv_heads)
        return cls(
            torch.zeros(shape, dtype=dtype, device=device),
            (heads * capacity).transpose(0, 1).reshape(batch, 1, 2 * kv_heads),
            places,
        )

    @property
    def batch(self) -> int:
        """Rows."""
        return len(self.offsets)

    @property
    def capacity(self) -> int:
        """Positions a row can hold."""
        return self.storage.shape[4]

    def row(self, index: int) -> "KVCache":
        """Return one row as a cache of batch 1 in the same storage, to prefill ragged prompts."""
        offsets = self.offsets[index : index + 1]
        return KVCache(self.storage, offsets, self.places, self.first + index, self.prefills)

    def clear(self) -> None:
        """Set zeros, as at first: NaN that was stored would pass through the next one's mask."""
        self.storage[:, :, self.first : self.first + self.batch].zero_()

    def positions(self) -> tuple[Float[Tensor, "places head_dim"], ...]:
        """Return each layer as a list of positions to write to, 2 * rows * kv_heads * capacity."""
        return self.storage.flatten(1, 4).unbind()

    def heads(self, span: int) -> tuple[tuple[Heads, ...], tuple[Heads, ...]]:
        """Return views of the keys and of the values of each layer up to `span`."""
        batch = self.storage[:, :, self.first : self.first + self.batch, :, :span]
        return batch[:, 0].unbind(), batch[:, 1].unbind()


Cache = KVCache | PackedCache
