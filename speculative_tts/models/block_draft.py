"""The network of a block drafter (DFlash, DSpark): all tokens of a round in one pass.

Its layers attend to what it made of the target's states at every position before the newest token,
which is kept in a cache by position, and among themselves to the block: the newest token and a
mask in the place of each token to draft. Nothing in a block is hidden from its other places.
DSpark's laws are biased by the token drafted before, which stands in for what a block cannot know.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float, Int64
from torch import Tensor

from speculative_tts.models.block_files import BlockConfig
from speculative_tts.models.decoder.cache import KVCache
from speculative_tts.models.decoder.loading import State, tensor_of
from speculative_tts.models.decoder.matrix import Matrix, matrix
from speculative_tts.models.host import readable
from speculative_tts.texts import some

Start = Int64[Tensor, " batch"]


@dataclass(frozen=True)
class BlockLayer:
    """One layer; the gains of its norms are those of the block, of queries and of keys."""

    queries: Matrix
    keys_values: Matrix
    out: Matrix
    gate_up: Matrix
    down: Matrix
    before_attention: Tensor
    before_mlp: Tensor
    of_queries: Tensor
    of_keys: Tensor


class BlockDraft:
    """Layers of a block drafter, and the projection that reads the target's states."""

    def __init__(self, config: BlockConfig, take: "Taken") -> None:
        self.config, self.dtype, self.device = config, take.dtype, take.device
        c = config.layers
        self._read = take.matrix("fc.weight", c.hidden, len(config.read) * c.hidden)
        self._read_gain = take.vector("hidden_norm.weight", c.hidden)
        self._layers = [_layer(config, take, index) for index in range(c.layers)]
        self._gain = take.vector("norm.weight", c.hidden)
        self._steps = torch.tensor(c.inverse_frequencies(), device=take.device)

    def cache(self, batch: int, capacity: int) -> KVCache:
        """Storage of keys and values for `batch` rows of up to `capacity` positions."""
        c = self.config.layers
        sizes = (c.layers, batch, c.kv_heads, capacity, c.head_dim)
        return KVCache.allocate(sizes, dtype=self.dtype, device=self.device)

    def observe(
        self, states: Float[Tensor, "batch new wide"], cache: KVCache, start: Start
    ) -> None:
        """Store what the layers attend to at new positions, whose target states these are."""
        c, (batch, new, wide) = self.config.layers, states.shape
        read = self._read(states.reshape(-1, wide).to(self._read.fed)).to(self.dtype)
        read = self._normed(read, self._read_gain)
        positions = start[:, None] + torch.arange(new, device=start.device)
        turns = self._turns(positions)
        slots = (positions[:, :, None] + cache.offsets).reshape(-1)
        for layer, stored in zip(self._layers, cache.positions(), strict=True):
            keys, values = self._keys_values(layer, read, batch, turns)
            both = torch.cat([keys, values], 2).reshape(-1, c.head_dim)
            stored.index_copy_(0, slots, both)

    def __call__(
        self, inputs: Float[Tensor, "batch block hidden"], cache: KVCache, start: Start
    ) -> Float[Tensor, "batch block hidden"]:
        """Return the states, normed, of blocks whose first token is at position `start`."""
        batch, block, hidden = inputs.shape
        x = inputs.reshape(-1, hidden).to(self.dtype)
        turns = self._turns(start[:, None] + torch.arange(block, device=start.device))
        span = int(start.max()) if readable(start) else cache.capacity
        seen = torch.arange(span, device=start.device) < start[:, None]
        seen = F.pad(seen, (0, block), value=True)[:, None, None]
        for layer, keys, values in zip(self._layers, *cache.heads(span), strict=True):
            x = x + self._attended(layer, x, (keys, values), seen, turns)
            fed = self._normed(x, layer.before_mlp)
            gate, up = layer.gate_up(fed.to(layer.gate_up.fed)).to(self.dtype).chunk(2, -1)
            x = x + layer.down((F.silu(gate) * up).to(layer.down.fed)).to(self.dtype)
        return self._normed(x, self._gain).view(batch, block, hidden)

    def _attended(
        self, layer: BlockLayer, x: Tensor, old: tuple[Tensor, Tensor], seen: Tensor, turns: Tensor
    ) -> Tensor:
        """Return what attention adds to x [batch * block, hidden]."""
        c, batch = self.config.layers, len(seen)
        fed = self._normed(x, layer.before_attention)
        queries = layer.queries(fed.to(layer.queries.fed)).to(self.dtype)
        queries = queries.view(batch, -1, c.heads, c.head_dim)
        queries = turned(self._normed(queries, layer.of_queries), turns).transpose(1, 2)
        own = self._keys_values(layer, fed, batch, turns)
        keys, values = (
            torch.cat([before, now.transpose(1, 2)], 2)
            for before, now in zip(old, own, strict=True)
        )
        said = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=seen, enable_gqa=c.heads != c.kv_heads
        )
        said = said.transpose(1, 2).reshape(len(x), -1)
        return layer.out(said.to(layer.out.fed)).to(self.dtype)

    def _keys_values(
        self, layer: BlockLayer, x: Tensor, batch: int, turns: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return keys, normed and turned, and values: [batch, new, kv_heads, head_dim] each."""
        c = self.config.layers
        both = layer.keys_values(x.to(layer.keys_values.fed)).to(self.dtype)
        keys, values = both.view(batch, -1, 2, c.kv_heads, c.head_dim).unbind(2)
        return turned(self._normed(keys, layer.of_keys), turns), values

    def _normed(self, x: Tensor, gain: Tensor) -> Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], gain, self.config.layers.norm_eps).to(self.dtype)

    def _turns(self, positions: Int64[Tensor, "batch new"]) -> Tensor:
        """Return the angles of RoPE as unit numbers: complex64 [batch, new, 1, head_dim / 2]."""
        angles = positions[:, :, None, None] * self._steps
        return torch.polar(torch.ones_like(angles), angles)


class Taken:
    """Takes tensors out of a state dict, with their shapes checked; `done` says if all were."""

    def __init__(self, state: State, dtype: torch.dtype, device: torch.device) -> None:
        self._state, self.dtype, self.device = dict(state), dtype, device

    def has(self, name: str) -> bool:
        """Return whether a tensor is there and was not taken."""
        return name in self._state

    def table(self, name: str, *shape: int) -> Tensor:
        """Take a tensor of a shape, in the drafter's format."""
        tensor = tensor_of(self._state, name, shape, "the block drafter")
        del self._state[name]
        return tensor.to(self.device, self.dtype)

    def matrix(self, name: str, rows: int, columns: int, *more: str, bias: bool = False) -> Matrix:
        """Take one [rows, columns] matrix, or several of this shape stacked."""
        names = (name, *more)
        weight = torch.cat([self.table(one, rows, columns) for one in names])
        named = [one.removesuffix("weight") + "bias" for one in names]
        vector = torch.cat([self.table(one, rows) for one in named]) if bias else None
        return matrix(weight.T, vector)

    def vector(self, name: str, size: int) -> Tensor:
        """Take a vector, in float32."""
        return self.table(name, size).float()

    def done(self) -> None:
        """Raise ValueError for tensors that nobody took."""
        if self._state:
            raise ValueError(
                f"the block drafter holds tensors that are not known here: {some([*self._state])}; "
                "config.json and weights do not belong together"
            )


def turned(x: Tensor, turns: Tensor) -> Tensor:
    """Apply RoPE to x [batch, new, heads, head_dim], in float32; partners lie half a head apart."""
    real, imaginary = x.float().chunk(2, -1)
    both = torch.complex(real, imaginary) * turns
    return torch.cat([both.real, both.imag], -1).to(x.dtype)


def _layer(config: BlockConfig, take: Taken, index: int) -> BlockLayer:
    c, at = config.layers, f"layers.{index}."
    q, kv, biased = c.heads * c.head_dim, c.kv_heads * c.head_dim, c.qkv_bias
    own, mlp = f"{at}self_attn.", f"{at}mlp."
    return BlockLayer(
        queries=take.matrix(f"{own}q_proj.weight", q, c.hidden, bias=biased),
        keys_values=take.matrix(
            f"{own}k_proj.weight", kv, c.hidden, f"{own}v_proj.weight", bias=biased
        ),
        out=take.matrix(f"{own}o_proj.weight", c.hidden, q, bias=c.out_bias),
        gate_up=take.matrix(
            f"{mlp}gate_proj.weight", c.intermediate, c.hidden, f"{mlp}up_proj.weight"
        ),
        down=take.matrix(f"{mlp}down_proj.weight", c.hidden, c.intermediate),
        before_attention=take.vector(f"{at}input_layernorm.weight", c.hidden),
        before_mlp=take.vector(f"{at}post_attention_layernorm.weight", c.hidden),
        of_queries=take.vector(f"{own}q_norm.weight", c.head_dim),
        of_keys=take.vector(f"{own}k_norm.weight", c.head_dim),
    )
