"""A Qwen2 for training whose attention can be guided; its tensors are named as transformers' are.

Two heads of some layers are shown where to look: one at the rows of the phone that is being spoken,
the other at those of the next. transformers' own module does not give a head's weights without
giving up its fast attention; here they are worked out beside it, for those heads alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

EPS = 1e-6
ROPE_THETA = 10_000.0
HIDDEN = -1e4  # score of what is not seen; finite, so that gradients of rows left out are 0


@dataclass(frozen=True)
class Shape:
    """Sizes of the trunk."""

    hidden: int = 192
    intermediate: int = 640
    layers: int = 24
    heads: int = 6
    kv_heads: int = 2
    guided: tuple[int, ...] = (2, 5, 8)  # layers

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads

    @property
    def guided_heads(self) -> tuple[int, int]:
        """Heads for this phone and the next, of different keys."""
        return 0, self.heads // self.kv_heads


class Linear(nn.Linear):
    """Works in the number format of its input, whatever that of its weights."""

    def forward(self, x: Tensor) -> Tensor:
        """See `nn.Linear`."""
        return linear(
            x, self.weight.to(x.dtype), None if self.bias is None else self.bias.to(x.dtype)
        )


class Norm(nn.Module):
    """RMSNorm in the number format of its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """See `rms_norm`."""
        return rms_norm(x, self.weight.shape, self.weight.to(x.dtype), EPS)


class GuidedAttention(nn.Module):
    """Causal grouped-query attention; `spread` says where the guided heads look."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, width = shape, shape.head_dim
        self.q_proj = Linear(shape.hidden, shape.heads * width)
        self.k_proj = Linear(shape.hidden, shape.kv_heads * width)
        self.v_proj = Linear(shape.hidden, shape.kv_heads * width)
        self.o_proj = Linear(shape.heads * width, shape.hidden, bias=False)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], look: Look | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output, and the guide's loss where `look` says where to look."""
        batch, length, _ = x.shape
        split = (batch, length, -1, self.shape.head_dim)
        q, k, v = (
            p(x).view(split).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotated(q, turn), rotated(k, turn)
        group = self.shape.heads // self.shape.kv_heads
        keys, values = (part.repeat_interleave(group, dim=1) for part in (k, v))
        out = scaled_dot_product_attention(q, keys, values, is_causal=True)
        guide = None if look is None else look.loss(*self._of_guided(q, k))
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1)), guide

    def _of_guided(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries and keys of the guided heads, [batch, 2, length, width] each."""
        heads = list(self.shape.guided_heads)
        group = self.shape.heads // self.shape.kv_heads
        return q[:, heads], k[:, [head // group for head in heads]]


@dataclass(frozen=True)
class Look:
    """Places where guided heads should look; -1 where a position has no phone."""

    phone: Int64[Tensor, "batch length"]  # which phone of the sequence a text row is of
    spoken: Int64[Tensor, "batch length"]  # which is spoken next at a position

    def loss(
        self, q: Float[Tensor, "batch 2 length width"], k: Float[Tensor, "batch 2 length width"]
    ) -> Tensor:
        """Return the mean -log of the weight that both heads give to their phone's rows."""
        length = q.shape[2]
        scores = (q @ k.mT).float() / math.sqrt(q.shape[-1])
        causal = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~causal, HIDDEN)
        at = self.spoken >= 0
        last = self.phone.amax(1, keepdim=True)
        losses = []
        for head, wanted in enumerate((self.spoken, torch.minimum(self.spoken + 1, last))):
            here: Bool[Tensor, "batch length length"] = self.phone[:, None, :] == wanted[..., None]
            aimed = scores[:, head].masked_fill(~here, HIDDEN).logsumexp(-1)
            losses.append((scores[:, head].logsumexp(-1) - aimed)[at].mean())
        return torch.stack(losses).mean()


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """One block."""
        out: Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """Attention and MLP, each after its norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn, self.mlp = GuidedAttention(shape), Mlp(shape)
        self.input_layernorm, self.post_attention_layernorm = Norm(shape.hidden), Norm(shape.hidden)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], look: Look | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the next states, and the guide's loss if there is one."""
        heard, guide = self.self_attn(self.input_layernorm(x), turn, look)
        x = x + heard
        return x + self.mlp(self.post_attention_layernorm(x)), guide


class GuidedTrunk(nn.Module):
    """Embedding, layers, final norm."""

    def __init__(self, shape: Shape, vocab_size: int) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(vocab_size, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden)

    def forward(
        self, x: Float[Tensor, "batch length hidden"], look: Look | None
    ) -> tuple[Tensor, Tensor]:
        """Return final states of embedded inputs, and the mean loss of the guided layers (or 0)."""
        turn, guides = self.turn(x), []
        for index, layer in enumerate(self.layers):
            x, guide = layer(x, turn, look if index in self.shape.guided else None)
            if guide is not None:
                guides.append(guide)
        return self.norm(x), torch.stack(guides).mean() if guides else x.new_zeros(())

    def turn(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of all positions, [length, head_dim] each."""
        width = self.shape.head_dim
        pairs = torch.arange(0, width, 2, device=x.device, dtype=torch.float32)
        angles = torch.arange(x.shape[1], device=x.device)[:, None] * ROPE_THETA ** (-pairs / width)
        both = torch.cat([angles, angles], -1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)


class GuidedLM(nn.Module):
    """The trunk and a head over the vocabulary."""

    def __init__(self, shape: Shape, vocab_size: int) -> None:
        super().__init__()
        self.model = GuidedTrunk(shape, vocab_size)
        self.lm_head = Linear(shape.hidden, vocab_size, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2 and "layers" in name:
                adds = name.endswith(("o_proj.weight", "down_proj.weight"))
                depth = (2 * shape.layers) ** -0.5 if adds else 1.0
                nn.init.normal_(parameter, std=depth * parameter.shape[1] ** -0.5)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def config(self, vocab_size: int, ids: dict[str, int]) -> dict[str, object]:
        """Return config.json as transformers writes it for a Qwen2."""
        shape = self.model.shape
        return {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "dtype": "float32",
            "vocab_size": vocab_size,
            "hidden_size": shape.hidden,
            "intermediate_size": shape.intermediate,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "hidden_act": "silu",
            "rms_norm_eps": EPS,
            "rope_theta": ROPE_THETA,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": False,
            **ids,
        }


def rotated(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Return queries or keys turned by their positions."""
    a, b = x.chunk(2, -1)
    return x * turn[0] + torch.cat([-b, a], -1) * turn[1]
