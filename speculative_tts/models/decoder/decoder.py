"""One lean decoder-only transformer for inference (Qwen2, Qwen3, Llama).

RMSNorm, RoPE, grouped-query attention, SwiGLU. `extend` serves prefill, a draft step and
verification alike. What 4 rows cost beside 1 row is what speculative verification lives on: on a
CPU a native function runs the whole pass (`native`), on a GPU few kernels (`models.gpu`);
`extend` is the reference of both.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Complex64, Float, Int64
from torch import Tensor

from speculative_tts.models.decoder.attention import attend, causal_mask
from speculative_tts.models.decoder.cache import Cache, KVCache
from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.matrix import packed
from speculative_tts.models.decoder.stack import DecoderLayer, DecoderStack
from speculative_tts.models.decoder.taps import Taps
from speculative_tts.models.gpu import step
from speculative_tts.models.gpu.triton_runtime import suits
from speculative_tts.models.host import readable
from speculative_tts.native.library import library
from speculative_tts.native.step import (
    LayerWeights,
    NativeStack,
    PackedCache,
    PassSpan,
    StackShape,
)

States = Float[Tensor, "batch new hidden"]


class Decoder(DecoderStack):
    """A stack of layers and the final norm; embeddings and heads belong to the speech LM."""

    def __init__(self, config: DecoderConfig, layers: list[DecoderLayer], norm: Tensor) -> None:
        super().__init__(config, layers, norm)
        self._floor = torch.tensor(config.floor2**0.5, device=norm.device)
        self._head_floor = torch.tensor(config.head_floor2**0.5, device=norm.device)
        self._rotations = _rotation_table(config, 0, norm.device)
        self.turns = torch.view_as_real(self._rotations).flatten(1)  # for the native step
        self.native = _native(self)

    def some(self, layers: Sequence[int]) -> "Decoder":
        """Return some of the layers as a decoder that shares this one's memory."""
        config = replace(self.config, layers=len(layers))
        return Decoder(config, [self.layers[index] for index in layers], self.norm)

    def cache(self, batch: int, capacity: int) -> Cache:
        """Return storage for `batch` rows of up to `capacity` positions.

        Raises ValueError past max_position_embeddings.
        """
        c = self.config
        if capacity > c.max_positions:
            raise ValueError(
                f"{capacity} positions exceed the model's {c.max_positions}; "
                "shorten the text or the prompt, or lower lookahead or target.rows.max_length"
            )
        if capacity > len(self._rotations):
            self._rotations = _rotation_table(c, capacity, self.device)
            self.turns = torch.view_as_real(self._rotations).flatten(1)
        if self.native is not None:
            return self.native.cache(batch, capacity)
        sizes = (c.layers, batch, c.kv_heads, capacity, c.head_dim)
        return KVCache.allocate(sizes, dtype=self.dtype, device=self.device, places=self._rotations)

    def extend(
        self,
        inputs: States,
        cache: Cache,
        start: Int64[Tensor, " batch"],
        keep: int | None = None,
        taps: Taps | None = None,
    ) -> Float[Tensor, "batch kept hidden"]:
        """Run new positions through the stack and store their keys and values.

        inputs: embeddings of positions start .. start + new of each row. start: valid positions
        already in the cache; what the cache holds beyond is overwritten or masked. Returns hidden
        states after the final norm, of the last `keep` positions (all by default). taps: see what
        layers are fed at all new positions.
        """
        if isinstance(cache, PackedCache):
            assert self.native is not None
            kept = PassSpan(keep=keep)
            return self.native.extend(inputs, cache, start, kept, rotations=self.turns, taps=taps)
        c = self.config
        batch, new, _ = inputs.shape
        if suits(self.norm) and step.takes(self, inputs):
            return step.extend(self, inputs, cache, start, taps)[:, -(keep or new) :]
        looking = readable(start)
        span = _span(start, new, cache.capacity) if looking else cache.capacity
        positions = start[:, None] + torch.arange(new, device=start.device)
        assert cache.places is not None
        rotation = cache.places[positions.view(-1)]
        slots = (positions[:, :, None] + cache.offsets).reshape(-1)
        mask = None
        if batch * new > 1 or not looking:
            mask = causal_mask(positions, span, self.dtype).repeat(1, 1, c.heads // c.kv_heads, 1)
        x = inputs.reshape(batch * new, c.hidden)
        for index, (layer, stored, keys, values) in enumerate(
            zip(self.layers, cache.positions(), *cache.heads(span), strict=True)
        ):
            if taps is not None:
                taps.see(index, x)
            fused = layer.qkv(self._normed(x))
            fused = fused.view(batch * new, c.heads + 2 * c.kv_heads, c.head_dim)
            self._turn(fused[:, : c.heads + c.kv_heads], rotation, layer.gains)
            stored.index_copy_(0, slots, fused[:, c.heads :].reshape(-1, c.head_dim))
            attended = self._attend(fused[:, : c.heads], keys, values, mask)
            x = layer.out(attended, x)
            wide = layer.gate_up(self._normed(x))
            gated = F.silu(wide[:, : c.intermediate]).mul_(wide[:, c.intermediate :])
            x = layer.down(gated, x)
        return (self._normed(x) * self.norm).view(batch, new, c.hidden)[:, -(keep or new) :]

    def _attend(
        self,
        queries: Float[Tensor, "rows heads head_dim"],
        keys: Float[Tensor, "batch kv_heads span head_dim"],
        values: Float[Tensor, "batch kv_heads span head_dim"],
        mask: Tensor | None,
    ) -> Float[Tensor, "rows heads*head_dim"]:
        """Attend by groups: the queries of one kv head become rows of one product.

        So keys are never repeated; rows are batch * new.
        """
        c = self.config
        groups, rows, batch = c.heads // c.kv_heads, len(queries), len(keys)
        new = rows // batch
        queries = queries.view(batch, new, c.kv_heads, groups, c.head_dim)
        queries = queries.permute(0, 2, 3, 1, 4).reshape(batch, c.kv_heads, -1, c.head_dim)
        out = attend(queries, keys, values, mask)
        out = out.view(batch, c.kv_heads, groups, new, c.head_dim).permute(0, 3, 1, 2, 4)
        return out.reshape(rows, c.heads * c.head_dim)

    def _turn(
        self,
        x: Float[Tensor, "rows heads head_dim"],
        rotation: Complex64[Tensor, "rows 1 half"],
        gains: Tensor | None,
    ) -> None:
        """Norm queries and keys where the model does, and apply RoPE, in place and in float32.

        Each pair of neighbouring dimensions turns as a complex number.
        """
        turned = x.float()  # itself, if it is of this format
        if gains is not None:
            norm = torch.linalg.vector_norm(turned, dim=-1, keepdim=True)
            turned = turned / torch.hypot(norm, self._head_floor) * gains
        turned.view(torch.complex64).mul_(rotation)
        if turned is not x:
            x.copy_(turned)

    def _normed(self, x: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows hidden"]:
        """Apply RMSNorm without its gain and factor sqrt(hidden), which the next matrix carries.

        x / sqrt(|x|^2 + hidden * eps) in three kernels; torch's rms_norm takes six on a CPU.
        """
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        return (x / torch.hypot(norm, self._floor)).to(self.dtype)


def _native(stack: DecoderStack) -> NativeStack | None:
    """Return the stack that runs all layers in one call; None unless their matrices are packed."""
    c, norm = stack.config, stack.norm
    weights = [
        LayerWeights(four, gains=layer.gains)
        for layer in stack.layers
        if (four := packed(*layer.matrices()))
    ]
    if len(weights) < len(stack.layers) or (native := library()) is None:
        return None
    shape = StackShape(
        hidden=c.hidden,
        heads=c.heads,
        kv_heads=c.kv_heads,
        head_dim=c.head_dim,
        intermediate=c.intermediate,
        eps=c.floor2,
        head_eps=c.head_floor2,
    )
    return NativeStack(native, shape, weights, (norm, torch.zeros_like(norm)))


def _rotation_table(c: DecoderConfig, positions: int, device: torch.device) -> Tensor:
    """Return exp(i angle) of RoPE by position, complex64 [positions, 1, head_dim / 2]."""
    frequencies = torch.tensor(c.inverse_frequencies(), device=device)
    angles = torch.arange(positions, device=device)[:, None, None] * frequencies
    return torch.polar(torch.ones_like(angles), angles)


def _span(start: Int64[Tensor, " batch"], new: int, capacity: int) -> int:
    """Cache columns attention looks at: up to the longest row."""
    span = int(start.max()) + new
    assert span <= capacity, f"cache of {capacity} positions cannot hold {span}"
    return span
