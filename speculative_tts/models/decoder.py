"""One lean decoder-only transformer for inference (Qwen2, Llama).

RMSNorm, RoPE, grouped-query attention, SwiGLU. `extend` serves prefill, a draft step and
verification alike. Weights are stored transposed ([in, out], contiguous): on a CPU a product with 4
rows then costs 1.2 times one with 1 row, against 1.9 times in torch's usual layout, and that ratio
is what speculative verification lives on.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from speculative_tts.models.cache import KVCache
from speculative_tts.models.config import DecoderConfig


@dataclass(frozen=True)
class Layer:
    """Weights of one layer; matrices are [in, out], biases [out] or None.

    The gains of the two RMSNorms are folded into the matrices behind them (`qkv`, `gate_up`).
    """

    qkv: Tensor
    qkv_bias: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


class Decoder:
    """A stack of layers and the final norm; embeddings and heads belong to the speech LM."""

    def __init__(self, config: DecoderConfig, layers: list[Layer], norm: Tensor) -> None:
        self.config = config
        self.layers = layers
        self.norm = norm
        self.device = norm.device
        self.dtype = norm.dtype
        self._cos, self._sin = _rotation_tables(config, 0, norm)

    def cache(self, batch: int, capacity: int) -> KVCache:
        """Storage for `batch` rows of up to `capacity` positions.

        Raises ValueError past max_position_embeddings.
        """
        c = self.config
        if capacity > c.max_positions:
            raise ValueError(
                f"{capacity} positions exceed the model's {c.max_positions}; "
                "shorten the text or the prompt"
            )
        if capacity > len(self._cos):
            self._cos, self._sin = _rotation_tables(c, capacity, self.norm)
        return KVCache.allocate(
            c.layers, batch, c.kv_heads, capacity, c.head_dim, dtype=self.dtype, device=self.device
        )

    def extend(self, inputs: Tensor, cache: KVCache, start: Tensor) -> Tensor:
        """Run new positions through the stack and store their keys and values.

        inputs: [batch, new, hidden] embeddings of positions start .. start + new of each row.
        start: int64 [batch], valid positions already in the cache; what the cache holds beyond is
        overwritten or masked. Returns hidden states after the final norm, [batch, new, hidden].
        """
        c = self.config
        batch, new, _ = inputs.shape
        span = _span(start, new, cache.capacity)
        positions = start[:, None] + torch.arange(new, device=start.device)
        flat = positions.view(-1)
        rotation = (self._cos[flat], self._sin[flat])
        slots = (positions[:, :, None] + cache.offsets).view(-1)
        mask = _mask(positions, span, c) if batch * new > 1 else None
        x = inputs.reshape(batch * new, c.hidden)
        for index, layer in enumerate(self.layers):
            kv = (cache.keys[index], cache.values[index])
            attended = self._attend(x, layer, (batch, new, span), rotation, slots, kv, mask)
            x = _project(attended, layer.out, layer.out_bias, residual=x)
            gate, up = _linear(_normed(x, c.norm_eps), layer.gate_up, layer.gate_up_bias).chunk(
                2, dim=-1
            )
            x = _project(F.silu(gate) * up, layer.down, layer.down_bias, residual=x)
        return (_normed(x, c.norm_eps) * self.norm).view(batch, new, c.hidden)

    def _attend(
        self,
        x: Tensor,
        layer: Layer,
        shape: tuple[int, int, int],
        rotation: tuple[Tensor, Tensor],
        slots: Tensor,
        kv: tuple[Tensor, Tensor],
        mask: Tensor | None,
    ) -> Tensor:
        """Grouped-query attention of new positions; [batch * new, heads * head_dim]."""
        c = self.config
        batch, new, span = shape
        groups = c.heads // c.kv_heads
        fused = _linear(_normed(x, c.norm_eps), layer.qkv, layer.qkv_bias)
        fused = fused.view(batch * new, c.heads + 2 * c.kv_heads, c.head_dim)
        rotated = _rotate(fused[:, : c.heads + c.kv_heads], *rotation)
        keys, values = kv
        keys.view(-1, c.head_dim).index_copy_(
            0, slots, rotated[:, c.heads :].reshape(-1, c.head_dim)
        )
        values.view(-1, c.head_dim).index_copy_(
            0, slots, fused[:, c.heads + c.kv_heads :].reshape(-1, c.head_dim)
        )
        # Queries of one kv head become rows of one product, so keys are never repeated.
        queries = rotated[:, : c.heads].view(batch, new, c.kv_heads, groups, c.head_dim)
        queries = queries.permute(0, 2, 3, 1, 4).reshape(
            batch * c.kv_heads, groups * new, c.head_dim
        )
        out = _attention(
            queries, keys[:, :, :span].flatten(0, 1), values[:, :, :span].flatten(0, 1), mask
        )
        out = out.view(batch, c.kv_heads, groups, new, c.head_dim).permute(0, 3, 1, 2, 4)
        return out.reshape(batch * new, c.heads * c.head_dim)


def _rotation_tables(c: DecoderConfig, positions: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and signed sine of RoPE's angles by position: [positions, 1, head_dim]."""
    frequencies = torch.tensor(c.inverse_frequencies(), device=like.device)
    angles = torch.arange(positions, device=like.device)[:, None, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([cos, cos], -1).to(like.dtype), torch.cat([-sin, sin], -1).to(like.dtype)


def _span(start: Tensor, new: int, capacity: int) -> int:
    """Cache columns attention looks at: the longest row on a CPU.

    On a GPU all, where reading the longest would wait.
    """
    if start.device.type != "cpu":
        return capacity
    span = int(start.max()) + new
    assert span <= capacity, f"cache of {capacity} positions cannot hold {span}"
    return span


def _mask(positions: Tensor, span: int, c: DecoderConfig) -> Tensor:
    """Additive causal mask by each row's own positions.

    Returns float32 [batch * kv_heads, groups * new, span].
    """
    columns = torch.arange(span, device=positions.device)
    hidden = columns > positions[:, :, None]
    mask = torch.where(hidden, float("-inf"), 0.0)
    batch, new = positions.shape
    groups = c.heads // c.kv_heads
    return (
        mask[:, None, None]
        .expand(batch, c.kv_heads, groups, new, span)
        .reshape(-1, groups * new, span)
    )


def _attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax(q k' / sqrt(d) + mask) v, softmax in float32; [rows, queries, d], [rows, span, d]."""
    scale = queries.shape[-1] ** -0.5
    if queries.device.type != "cpu":
        bias = None if mask is None else mask.to(queries.dtype)
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
    if queries.dtype != torch.float32:
        scores = torch.bmm(queries, keys.mT).float() * scale
        scores = scores if mask is None else scores + mask
        return torch.bmm(scores.softmax(-1).to(values.dtype), values)
    scores = (
        torch.bmm(queries * scale, keys.mT)
        if mask is None
        else torch.baddbmm(mask, queries, keys.mT, alpha=scale)
    )
    return torch.bmm(scores.softmax(-1), values)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE in the half-split layout: the partner of dimension i is i + head_dim / 2."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)


def _normed(x: Tensor, eps: float) -> Tensor:
    """RMSNorm without its gain.

    torch's own is six kernels on a CPU; layer norm of [x, -x] has mean 0 and the same variance.
    """
    size = x.shape[-1]
    if x.device.type != "cpu" or x.dtype != torch.float32:
        return F.rms_norm(x, (size,), None, eps)
    return torch.layer_norm(torch.cat([x, -x], -1), (2 * size,), None, None, eps)[..., :size]


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.mm(x, weight) if bias is None else torch.addmm(bias, x, weight)


def _project(x: Tensor, weight: Tensor, bias: Tensor | None, *, residual: Tensor) -> Tensor:
    out = torch.addmm(residual, x, weight)
    return out if bias is None else out + bias
