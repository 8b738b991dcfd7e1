"""Building blocks of VALL-E's two models, named so that state dicts match the official ones.

Encoder layers with ReLU, LayerNorm before (or after) each half, sine positions with a learned
scale; the NAR's norms are scaled and shifted by an embedding of the stage.
"""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

PRENET_HIDDEN = 256
PRENET_TEXT_DROPOUT, PRENET_AUDIO_DROPOUT = 0.5, 0.25


class TokenEmbedding(nn.Module):
    """An embedding table with the official name of its weight."""

    def __init__(self, dim: int, tokens: int) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(tokens, dim)

    @property
    def weight(self) -> nn.Parameter:
        """[tokens, dim]."""
        weight = self.word_embeddings.weight
        assert isinstance(weight, nn.Parameter)
        return weight

    def forward(self, ids: Int64[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """Rows of the table."""
        found: Tensor = self.word_embeddings(ids)
        return found


class SinePosition(nn.Module):
    """Adds `alpha` times a sine of the position; text and audio each count from 0.

    The sum is in float32 whatever x is, and rounded once.
    """

    def __init__(self, dim: int, *, dropout: float, learned: bool) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1), requires_grad=learned)
        self.dropout = nn.Dropout(dropout)
        self.dim = dim

    def forward(self, x: Float[Tensor, "batch length dim"]) -> Float[Tensor, "batch length dim"]:
        """Positions 0 .. length - 1."""
        table = self.alpha.float() * sine_table(x.shape[1], self.dim, x.device)
        placed: Tensor = self.dropout((x + table).to(x.dtype))
        return placed


def sine_table(length: int, dim: int, device: torch.device) -> Float[Tensor, "length dim"]:
    """Sines in even and cosines in odd dimensions, wavelengths 2 pi .. 10,000 * 2 pi."""
    steps = torch.arange(0, dim, 2, device=device, dtype=torch.float32)
    angles = torch.arange(length, device=device, dtype=torch.float32)[:, None] * torch.exp(
        steps * -(math.log(10_000.0) / dim)
    )
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :dim]


class Attention(nn.Module):
    """Multi-head self-attention with one fused input projection."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * dim))
        self.out_proj = nn.Linear(dim, dim)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self, x: Float[Tensor, "batch length dim"], visible: Bool[Tensor, "..."] | None
    ) -> Float[Tensor, "batch length dim"]:
        """`visible` [batch, 1, length or 1, length] says which keys a row sees; None: all."""
        batch, length, dim = x.shape
        fused = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = fused.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, dropout_p=dropout)
        out: Tensor = self.out_proj(seen.transpose(1, 2).reshape(batch, length, dim))
        return out


class PlainNorm(nn.LayerNorm):
    """LayerNorm; the stage is not looked at."""

    def forward(self, x: Tensor, stage: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Normalised x."""
        return super().forward(x)


class AdaptiveNorm(nn.Module):
    """LayerNorm whose result is scaled and shifted by a projection of the stage's embedding."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.project_layer = nn.Linear(dim, 2 * dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, stage: Float[Tensor, "1 dim"]) -> Tensor:
        """`stage`: the row of the stage's embedding."""
        scale, shift = self.project_layer(stage).chunk(2, dim=-1)
        shaped: Tensor = scale * self.norm(x) + shift
        return shaped


class TransformerLayer(nn.Module):
    """Attention and a ReLU network, each with a residual and a norm before or after it."""

    def __init__(
        self, dim: int, heads: int, *, norm_first: bool, adaptive: bool, dropout: float
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.self_attn = Attention(dim, heads, dropout)
        self.linear1, self.linear2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.norm1 = AdaptiveNorm(dim) if adaptive else PlainNorm(dim)
        self.norm2 = AdaptiveNorm(dim) if adaptive else PlainNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, stage: Tensor | None, visible: Tensor | None) -> Tensor:
        """[batch, length, dim] to the same."""
        if self.norm_first:
            x = x + self.dropout(self.self_attn(self.norm1(x, stage), visible))
            return x + self._network(self.norm2(x, stage))
        x = self.norm1(x + self.dropout(self.self_attn(x, visible)), stage)
        out: Tensor = self.norm2(x + self._network(x), stage)
        return out

    def _network(self, x: Tensor) -> Tensor:
        out: Tensor = self.dropout(self.linear2(self.dropout(F.relu(self.linear1(x)))))
        return out


class Stack(nn.Module):
    """Layers, and with `norm_first` a final norm."""

    def __init__(
        self, layers: int, dim: int, heads: int, *, norm_first: bool, adaptive: bool, dropout: float
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            TransformerLayer(dim, heads, norm_first=norm_first, adaptive=adaptive, dropout=dropout)
            for _ in range(layers)
        )
        norm = AdaptiveNorm(dim) if adaptive else PlainNorm(dim)
        self.norm: nn.Module | None = norm if norm_first else None

    def forward(
        self, x: Tensor, visible: Tensor | None = None, stage: Tensor | None = None
    ) -> Tensor:
        """[batch, length, dim] to the same, after the final norm."""
        for layer in self.layers:
            x = layer(x, stage, visible)
        return x if self.norm is None else self.norm(x, stage)


class Transpose(nn.Module):
    """Swaps the last two dimensions."""

    def forward(self, x: Tensor) -> Tensor:
        """[.., a, b] to [.., b, a]."""
        return x.mT


def text_prenet(dim: int, add: bool) -> nn.Module:
    """Three convolutions over the text with batch norms, and a linear layer; or nothing."""
    if not add:
        return nn.Identity()
    convolutions = [
        module
        for _ in range(3)
        for module in (
            nn.Conv1d(dim, dim, kernel_size=5, padding="same"),
            nn.BatchNorm1d(dim),
            nn.ReLU(),
            nn.Dropout(PRENET_TEXT_DROPOUT),
        )
    ]
    return nn.Sequential(Transpose(), *convolutions, Transpose(), nn.Linear(dim, dim))


def audio_prenet(dim: int, add: bool) -> nn.Module:
    """Three linear layers, position by position; or nothing."""
    if not add:
        return nn.Identity()
    return nn.Sequential(
        nn.Linear(dim, PRENET_HIDDEN),
        nn.ReLU(),
        nn.Dropout(PRENET_AUDIO_DROPOUT),
        nn.Linear(PRENET_HIDDEN, PRENET_HIDDEN),
        nn.ReLU(),
        nn.Dropout(PRENET_AUDIO_DROPOUT),
        nn.Linear(PRENET_HIDDEN, dim),
    )


def padding(lengths: Int64[Tensor, " batch"], size: int) -> Bool[Tensor, "batch size"]:
    """Return which of `size` positions of each row lie after its length."""
    return torch.arange(size, device=lengths.device) >= lengths[:, None]
