"""The AR's layers for decoding: a key-value cache, weights laid out for few rows at once.

Prefill, a draft step and verification are one function. As in `models.decoder`, matrices are
stored transposed ([in, out], contiguous), and what a row of the cache holds beyond its `start` is
masked or overwritten, so that rolling back is lowering a number.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from speculative_tts.models.cache import KVCache
from speculative_tts.models.matrix import Matrix
from speculative_tts.models.valle.modules import Layer, PlainNorm, Stack

Norm = tuple[Tensor, Tensor]  # gain and bias


@dataclass(frozen=True)
class TrunkLayer:
    """Weights of one layer: matrices [in, out], biases [out].

    The attention scale is folded into the queries' columns of `qkv`.
    """

    qkv: Matrix
    qkv_bias: Tensor
    out: Matrix
    out_bias: Tensor
    up: Matrix
    up_bias: Tensor
    down: Matrix
    down_bias: Tensor
    norm1: Norm
    norm2: Norm


class Trunk:
    """A stack of plain layers (the AR's) with a cache."""

    def __init__(self, stack: Stack, heads: int, *, dtype: torch.dtype, device: torch.device):
        self.heads, self.dtype, self.device = heads, dtype, device
        self.layers = [_layer(layer, heads, dtype, device) for layer in stack.layers]
        self.norm = None if stack.norm is None else _norm(stack.norm, dtype, device)
        self.norm_first = stack.norm is not None
        self.dim = self.layers[0].out.weight.shape[1]

    def cache(self, batch: int, capacity: int) -> KVCache:
        """Storage for `batch` rows of up to `capacity` positions."""
        size = self.dim // self.heads
        return KVCache.allocate(
            len(self.layers),
            batch,
            self.heads,
            capacity,
            size,
            dtype=self.dtype,
            device=self.device,
        )

    def weights(self) -> Iterator[Tensor]:
        """All that a pass reads."""
        for layer in self.layers:
            for part in vars(layer).values():
                if isinstance(part, Matrix):
                    yield part.weight
                else:
                    yield from (part,) if isinstance(part, Tensor) else part
        yield from self.norm or ()

    def extend(self, inputs: Tensor, cache: KVCache, start: Tensor, prefix: int = 0) -> Tensor:
        """Run new positions through the layers and store their keys and values.

        inputs: [batch, new, dim] of positions start .. start + new of each row. start: int64
        [batch]. prefix: the first positions, which all rows see (of a prefill). Returns hidden
        states after the final norm, [batch, new, dim].
        """
        batch, new, _ = inputs.shape
        on_cpu = start.device.type == "cpu"
        span = int(start.max()) + new if on_cpu else cache.capacity  # a GPU would have to wait
        assert span <= cache.capacity, f"cache of {cache.capacity} positions cannot hold {span}"
        positions = start[:, None] + torch.arange(new, device=start.device)
        slots = (positions[:, :, None] + cache.offsets).reshape(-1)
        mask = None
        if batch * new > 1 or not on_cpu:
            mask = _mask(positions, span, prefix, self.dtype).repeat_interleave(self.heads, 0)
        x = inputs.reshape(batch * new, self.dim)
        for layer, stored, keys, values in zip(
            self.layers, cache.positions(), *cache.heads(span), strict=True
        ):
            y = self._norm(x, layer.norm1) if self.norm_first else x
            fused = layer.qkv(y, layer.qkv_bias).view(batch * new, 3 * self.heads, -1)
            stored.index_copy_(0, slots, fused[:, self.heads :].flatten(0, 1))
            queries = fused[:, : self.heads].view(batch, new, self.heads, -1).transpose(1, 2)
            seen = _attention(queries.flatten(0, 1), keys, values, mask)
            seen = seen.view(batch, self.heads, new, -1).transpose(1, 2).reshape(batch * new, -1)
            x = x + layer.out(seen, layer.out_bias)
            x = x if self.norm_first else self._norm(x, layer.norm1)
            y = self._norm(x, layer.norm2) if self.norm_first else x
            wide = layer.up(y, layer.up_bias).relu_()
            x = x + layer.down(wide, layer.down_bias)
            x = x if self.norm_first else self._norm(x, layer.norm2)
        return (x if self.norm is None else self._norm(x, self.norm)).view(batch, new, self.dim)

    def _norm(self, x: Tensor, norm: Norm) -> Tensor:
        return F.layer_norm(x, (self.dim,), *norm)


def _mask(positions: Tensor, span: int, prefix: int, dtype: torch.dtype) -> Tensor:
    """0 where a new position sees a column and -inf elsewhere: [batch, new, span]."""
    columns = torch.arange(span, device=positions.device)
    hidden = columns > positions[:, :, None].clamp(min=prefix - 1)
    return torch.zeros(hidden.shape, dtype=dtype, device=positions.device).masked_fill_(
        hidden, float("-inf")
    )


def _attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax(q k' + mask) v, softmax in float32; [rows, queries, d], [rows, span, d]."""
    if queries.device.type != "cpu":
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=1.0)
    scores = torch.bmm(queries, keys.mT) if mask is None else torch.baddbmm(mask, queries, keys.mT)
    return torch.bmm(scores.float().softmax(-1).to(values.dtype), values)


def _layer(
    layer: torch.nn.Module, heads: int, dtype: torch.dtype, device: torch.device
) -> TrunkLayer:
    assert isinstance(layer, Layer)
    attention = layer.self_attn
    dim = attention.in_proj_weight.shape[1]
    scale = torch.ones(3 * dim)
    scale[:dim] = (dim // heads) ** -0.5

    def matrix(weight: Tensor) -> Matrix:
        return Matrix(weight.detach().float().to(device, dtype).T.contiguous())

    def vector(bias: Tensor) -> Tensor:
        return bias.detach().to(device, dtype)

    return TrunkLayer(
        qkv=matrix(attention.in_proj_weight.detach().float().cpu() * scale[:, None]),
        qkv_bias=vector(attention.in_proj_bias.detach().float().cpu() * scale),
        out=matrix(attention.out_proj.weight),
        out_bias=vector(attention.out_proj.bias),
        up=matrix(layer.linear1.weight),
        up_bias=vector(layer.linear1.bias),
        down=matrix(layer.linear2.weight),
        down_bias=vector(layer.linear2.bias),
        norm1=_norm(layer.norm1, dtype, device),
        norm2=_norm(layer.norm2, dtype, device),
    )


def _norm(norm: torch.nn.Module, dtype: torch.dtype, device: torch.device) -> Norm:
    assert isinstance(norm, PlainNorm)
    gain, bias = (p.detach().to(device, dtype, copy=True) for p in (norm.weight, norm.bias))
    return gain, bias
