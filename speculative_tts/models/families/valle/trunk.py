"""The AR's layers for decoding: a key-value cache, weights laid out for few rows at once.

Prefill, a draft step and verification are one function, as in `models.decoder`, native on a CPU.
What a row of the cache holds beyond its `start` is masked or overwritten, so that rolling back is
lowering a number.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from speculative_tts.models.decoder.attention import attend, causal_mask
from speculative_tts.models.decoder.cache import Cache, KVCache
from speculative_tts.models.decoder.matrix import Matrix, matrix, packed
from speculative_tts.models.families.valle.modules import PlainNorm, Stack, TransformerLayer
from speculative_tts.models.host import readable
from speculative_tts.native.library import library
from speculative_tts.native.step import (
    LayerWeights,
    NativeStack,
    Norm,
    PackedCache,
    PassSpan,
    StackShape,
)

EPS = 1e-5  # of LayerNorms


@dataclass(frozen=True)
class TrunkLayer:
    """Weights of one layer; the attention scale is folded into the queries' columns of `qkv`."""

    qkv: Matrix
    out: Matrix
    up: Matrix
    down: Matrix
    norm1: Norm
    norm2: Norm


class Trunk:
    """A stack of plain layers (the AR's) with a cache."""

    def __init__(self, stack: Stack, heads: int, *, dtype: torch.dtype, device: torch.device):
        self.heads, self.dtype, self.device = heads, dtype, device
        self.layers = [_layer(layer, heads, dtype, device) for layer in stack.layers]
        self.norm = None if stack.norm is None else _norm(stack.norm, dtype, device)
        self.norm_first = stack.norm is not None
        self.dim = self.layers[0].out.shape[1]
        self.native = self._stack()

    def _stack(self) -> NativeStack | None:
        """The native stack that runs all layers at once; None unless their matrices are packed."""
        layers = [
            LayerWeights(four, (layer.norm1, layer.norm2))
            for layer in self.layers
            if (four := packed(layer.qkv, layer.out, layer.up, layer.down))
        ]
        if len(layers) < len(self.layers) or (native := library()) is None:
            return None
        shape = StackShape(
            hidden=self.dim,
            heads=self.heads,
            kv_heads=self.heads,
            head_dim=self.dim // self.heads,
            intermediate=self.layers[0].up.shape[1],
            eps=EPS,
            gated=False,
            layer_norm=True,
            norm_first=self.norm_first,
        )
        return NativeStack(native, shape, layers, self.norm)

    def cache(self, batch: int, capacity: int) -> Cache:
        """Storage for `batch` rows of up to `capacity` positions."""
        if self.native is not None:
            return self.native.cache(batch, capacity)
        sizes = (len(self.layers), batch, self.heads, capacity, self.dim // self.heads)
        return KVCache.allocate(sizes, dtype=self.dtype, device=self.device)

    def weights(self) -> Iterator[Matrix | Tensor]:
        """All that a pass reads."""
        for layer in self.layers:
            yield from (layer.qkv, layer.out, layer.up, layer.down, *layer.norm1, *layer.norm2)
        yield from self.norm or ()

    def extend(
        self, inputs: Tensor, cache: Cache, start: Tensor, prefix: int = 0, keep: int | None = None
    ) -> Tensor:
        """Run new positions through the layers and store their keys and values.

        inputs: [batch, new, dim] of positions start .. start + new of each row. start: int64
        [batch]. prefix: the first positions, which all rows see (of a prefill). Returns hidden
        states after the final norm of the last `keep` positions (all by default), [batch, keep,
        dim].
        """
        if isinstance(cache, PackedCache):
            assert self.native is not None
            return self.native.extend(inputs, cache, start, PassSpan(prefix, keep))
        batch, new, _ = inputs.shape
        looking = readable(start)
        span = int(start.max()) + new if looking else cache.capacity
        assert span <= cache.capacity, f"cache of {cache.capacity} positions cannot hold {span}"
        positions = start[:, None] + torch.arange(new, device=start.device)
        slots = (positions[:, :, None] + cache.offsets).reshape(-1)
        mask = None
        if batch * new > 1 or not looking:
            mask = causal_mask(positions, span, self.dtype, prefix)
        x = inputs.reshape(batch * new, self.dim)
        for layer, stored, keys, values in zip(
            self.layers, cache.positions(), *cache.heads(span), strict=True
        ):
            y = self._norm(x, layer.norm1) if self.norm_first else x
            fused = layer.qkv(y).view(batch * new, 3 * self.heads, -1)
            stored.index_copy_(0, slots, fused[:, self.heads :].flatten(0, 1))
            queries = fused[:, : self.heads].view(batch, new, self.heads, -1).transpose(1, 2)
            seen = attend(queries, keys, values, mask).transpose(1, 2).reshape(batch * new, -1)
            x = layer.out(seen, x)
            x = x if self.norm_first else self._norm(x, layer.norm1)
            y = self._norm(x, layer.norm2) if self.norm_first else x
            wide = layer.up(y).relu_()
            x = layer.down(wide, x)
            x = x if self.norm_first else self._norm(x, layer.norm2)
        x = x if self.norm is None else self._norm(x, self.norm)
        return x.view(batch, new, self.dim)[:, -(keep or new) :]

    def _norm(self, x: Tensor, norm: Norm) -> Tensor:
        return F.layer_norm(x, (self.dim,), *norm, eps=EPS)


def _layer(
    layer: torch.nn.Module, heads: int, dtype: torch.dtype, device: torch.device
) -> TrunkLayer:
    assert isinstance(layer, TransformerLayer)
    attention = layer.self_attn
    dim = attention.in_proj_weight.shape[1]
    scale = torch.ones(3 * dim)
    scale[:dim] = (dim // heads) ** -0.5

    def linear(weight: Tensor, bias: Tensor) -> Matrix:
        weight = weight.detach().float().to(device, dtype).T
        return matrix(weight, bias.detach().to(device, dtype))

    return TrunkLayer(
        qkv=linear(
            attention.in_proj_weight.detach().float().cpu() * scale[:, None],
            attention.in_proj_bias.detach().float().cpu() * scale,
        ),
        out=linear(attention.out_proj.weight, attention.out_proj.bias),
        up=linear(layer.linear1.weight, layer.linear1.bias),
        down=linear(layer.linear2.weight, layer.linear2.bias),
        norm1=_norm(layer.norm1, dtype, device),
        norm2=_norm(layer.norm2, dtype, device),
    )


def _norm(norm: torch.nn.Module, dtype: torch.dtype, device: torch.device) -> Norm:
    assert isinstance(norm, PlainNorm)
    gain, bias = (p.detach().to(device, dtype, copy=True) for p in (norm.weight, norm.bias))
    return gain, bias
