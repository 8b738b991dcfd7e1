"""A decoder's passes on a GPU: `extend` for steps, `prefill` for whole prompts.

`Decoder.extend` is the reference of both. They take the decoder's own weights and cache.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from speculative_tts.models.decoder.cache import KVCache
from speculative_tts.models.decoder.matrix import Dense, Matrix
from speculative_tts.models.decoder.stack import DecoderLayer, DecoderStack
from speculative_tts.models.decoder.taps import Taps
from speculative_tts.models.gpu import attention
from speculative_tts.models.gpu.attention import Stored, Turns, attend
from speculative_tts.models.gpu.norms import gated, normed, rotate
from speculative_tts.models.gpu.products import Fused, product
from speculative_tts.models.gpu.tiles import FEW, AttentionHeads

See = Callable[[int, Tensor], None]  # told each layer's index and what it is fed


def heads_of(stack: DecoderStack) -> AttentionHeads:
    """Return what attention must know of a stack."""
    c = stack.config
    return AttentionHeads(c.heads, c.kv_heads, c.head_dim)


def stored_of(cache: KVCache) -> list[Stored]:
    """Return each layer's keys and values of the cache's rows."""
    rows = cache.storage[:, :, cache.first : cache.first + cache.batch]
    return [Stored(*both) for both in rows]


def turns_of(cache: KVCache) -> Tensor:
    """Return cosines and sines by position in pairs, float32 [positions, head_dim]."""
    assert cache.places is not None
    return torch.view_as_real(cache.places).flatten(1)


def turns_in(stack: DecoderStack, layer: DecoderLayer, table: Tensor) -> Turns:
    """Return what a layer's queries and keys pass."""
    return Turns(table, layer.gains, stack.config.head_floor2)


def takes(stack: DecoderStack, inputs: Tensor) -> bool:
    """Return whether `extend` has a kernel for so many new positions."""
    batch, new, _ = inputs.shape
    return attention.fits(heads_of(stack), batch, new)


def extend(
    stack: DecoderStack,
    inputs: Tensor,
    cache: KVCache,
    start: Tensor,
    taps: Taps | None = None,
) -> Tensor:
    """Run new positions [batch, new, hidden] through the stack, as `Decoder.extend` does."""
    batch, new, hidden = inputs.shape
    rows = batch * new
    x = inputs.reshape(rows, hidden).to(stack.dtype).contiguous()
    through = _few if rows <= FEW else _many
    see = (lambda *_: None) if taps is None else taps.see
    return through(stack, x, cache, start, see).view(batch, new, hidden)


def _few(stack: DecoderStack, x: Tensor, cache: KVCache, start: Tensor, see: See) -> Tensor:
    """Run up to FEW rows: five kernels a layer, each of which may overtake the one before it."""
    heads, table = heads_of(stack), turns_of(cache)
    floor2 = stack.config.floor2
    for index, (layer, stored) in enumerate(zip(stack.layers, stored_of(cache), strict=True)):
        see(index, x)
        turns = turns_in(stack, layer, table)
        qkv, out, gate_up, down = map(_dense, layer.matrices())
        fused = product(x, qkv.by_output(), Fused(qkv.bias, floor2=floor2))
        said = attend(heads, fused, stored, turns, start, early=True)
        x = product(said, out.by_output(), Fused(out.bias, x, opens=True))
        wide = product(x, gate_up.by_output(), Fused(gate_up.bias, floor2=floor2, gated=True))
        x = product(wide, down.by_output(), Fused(down.bias, x))
    return normed(x, floor2, gain=stack.norm, early=True)[1]


def _many(stack: DecoderStack, x: Tensor, cache: KVCache, start: Tensor, see: See) -> Tensor:
    """Run more rows: cuBLAS's products, our kernels between them."""
    heads, table = heads_of(stack), turns_of(cache)
    floor2 = stack.config.floor2
    added = None
    for index, (layer, stored) in enumerate(zip(stack.layers, stored_of(cache), strict=True)):
        turns = turns_in(stack, layer, table)
        x, fed = normed(x, floor2, added)
        see(index, x)
        said = attend(heads, layer.qkv(fed), stored, turns, start)
        x, fed = normed(x, floor2, layer.out(said))
        added = layer.down(gated(layer.gate_up(fed)))
    return normed(x, floor2, added, stack.norm)[1]


def prefill(
    stack: DecoderStack, inputs: Tensor, storage: Tensor, rows: Tensor, table: Tensor
) -> Tensor:
    """Run prompts [batch, longest, hidden] from position 0, padded at their ends.

    storage: a whole cache's; rows: int64 [batch], those of it to fill. What a row stores past its
    own end is masked or overwritten by what comes later. table: as `turns_of` returns it.
    """
    batch, new, hidden = inputs.shape
    heads = heads_of(stack)
    floor2 = stack.config.floor2
    x, added = inputs.reshape(batch * new, hidden), None
    for layer, both in zip(stack.layers, storage, strict=True):
        x, fed = normed(x, floor2, added)
        fused = layer.qkv(fed)
        rotate(heads, fused, Stored(*both), turns_in(stack, layer, table), rows)
        x, fed = normed(x, floor2, layer.out(_causal(heads, fused, batch)))
        added = layer.down(gated(layer.gate_up(fed)))
    return normed(x, floor2, added, stack.norm)[1].view(batch, new, hidden)


def _dense(matrix: Matrix) -> Dense:
    """Return a matrix as what it is on a GPU."""
    assert isinstance(matrix, Dense)
    return matrix


def _causal(heads: AttentionHeads, fused: Tensor, batch: int) -> Tensor:
    """Attend from each position to those before it, without a cache."""
    h, kv, d = heads
    wide = fused.view(batch, -1, h + 2 * kv, d).transpose(1, 2)
    queries, keys, values = torch.split(wide, [h, kv, kv], 1)
    said = F.scaled_dot_product_attention(
        queries, keys, values, is_causal=True, scale=1.0, enable_gqa=h != kv
    )
    return said.transpose(1, 2).reshape(len(fused), h * d)
