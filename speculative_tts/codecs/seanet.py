"""Implement SEANet's convolutional encoder and decoder for SpeechTokenizer, with official names.

They have convolutions with weight norm and reflect padding (not causal), residual blocks, and LSTMs
with a skip (Tagliasacchi et al., 2020; Défossez et al., 2022).
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

OUTER_KERNEL = 7  # of the first and last convolution
COMPRESS = 2  # channels of a residual block over its hidden ones


@dataclass(frozen=True)
class SeanetConfig:
    """The part of SpeechTokenizer's config.json that shapes the networks."""

    n_filters: int
    dimension: int
    strides: tuple[int, ...]  # of the decoder, in order
    lstm_layers: int
    bidirectional: bool  # of the encoder's LSTM
    dilation_base: int
    residual_kernel_size: int
    n_residual_layers: int
    activation: str  # Snake, or a class of torch.nn

    def __post_init__(self) -> None:
        """Raise ValueError for an activation that is not known."""
        if self.activation not in ("Snake", "ELU"):
            raise ValueError(f"activation {self.activation!r} is unknown; known: ELU, Snake")

    @property
    def hop(self) -> int:
        """Samples per code."""
        return math.prod(self.strides)


class Snake(nn.Module):
    """The activation x + sin^2(alpha x) / alpha, with one alpha per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, channels, samples] to the same shape."""
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).square()


class WeightNormed(nn.Module):
    """A convolution's parameters: direction `weight_v` and, by first dimension, size `weight_g`."""

    def __init__(self, shape: tuple[int, int, int], out_channels: int) -> None:
        super().__init__()
        self.weight_v = nn.Parameter(torch.empty(shape))
        nn.init.kaiming_uniform_(self.weight_v, a=math.sqrt(5))
        self.weight_g = nn.Parameter(_length(self.weight_v.detach()))
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def weight(self) -> Tensor:
        """Return the kernel."""
        return self.weight_v * (self.weight_g / _length(self.weight_v))


class Convolution(nn.Module):
    """A convolution whose input is padded so that ceil(samples / stride) come out."""

    def __init__(
        self, inner: int, outer: int, kernel: int, *, stride: int = 1, dilation: int = 1
    ) -> None:
        super().__init__()
        self.kernel, self.stride, self.dilation = kernel, stride, dilation
        self.conv = nn.ModuleDict({"conv": WeightNormed((outer, inner, kernel), outer)})

    def forward(self, x: Float[Tensor, "batch inner samples"]) -> Float[Tensor, "batch outer _"]:
        """Convolve, padding so that the last window is full."""
        parameters = self.conv["conv"]
        assert isinstance(parameters, WeightNormed)
        total = (self.kernel - 1) * self.dilation - (self.stride - 1)
        right = total // 2
        windows = math.ceil((x.shape[-1] - self.kernel + total) / self.stride + 1)
        extra = (windows - 1) * self.stride + self.kernel - total - x.shape[-1]
        return F.conv1d(
            _reflected(x, total - right, right + extra),
            parameters.weight(),
            parameters.bias,
            stride=self.stride,
            dilation=self.dilation,
        )


class Upsampling(nn.Module):
    """A transposed convolution of kernel 2 * stride; `stride` times the samples come out."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.convtr = nn.ModuleDict({"convtr": WeightNormed((inner, outer, 2 * stride), outer)})

    def forward(self, x: Float[Tensor, "batch inner samples"]) -> Float[Tensor, "batch outer _"]:
        """Upsample, and cut off the ends."""
        parameters = self.convtr["convtr"]
        assert isinstance(parameters, WeightNormed)
        y = F.conv_transpose1d(x, parameters.weight(), parameters.bias, stride=self.stride)
        right = self.stride // 2
        return y[..., self.stride - right : y.shape[-1] - right]


class SeanetLSTM(nn.Module):
    """LSTM layers with a skip; a bidirectional one doubles the channels."""

    def __init__(self, channels: int, layers: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.lstm = nn.LSTM(channels, channels, layers, bidirectional=bidirectional)

    def forward(self, x: Float[Tensor, "batch channels frames"]) -> Tensor:
        """Return [batch, channels or twice as many, frames]."""
        x = x.permute(2, 0, 1)
        y: Tensor = self.lstm(x)[0]
        skip = x.repeat(1, 1, 2) if self.lstm.bidirectional else x
        return (y + skip).permute(1, 2, 0)

    def ragged(self, parts: list[Tensor]) -> list[Tensor]:
        """Run several [1, channels, frames] of different lengths in one packed batch."""
        packed = pack_sequence([part[0].T for part in parts], enforce_sorted=False)
        padded, lengths = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        out = []
        for part, y, length in zip(parts, padded, lengths.tolist(), strict=True):
            skip = part.repeat(1, 2, 1) if self.lstm.bidirectional else part
            out.append(y[:length].T[None] + skip)
        return out


class Residual(nn.Module):
    """Two convolutions, with a third one as shortcut."""

    def __init__(self, channels: int, dilation: int, c: SeanetConfig) -> None:
        super().__init__()
        hidden = channels // COMPRESS
        self.block = nn.Sequential(
            activation(c, channels),
            Convolution(channels, hidden, c.residual_kernel_size, dilation=dilation),
            activation(c, hidden),
            Convolution(hidden, channels, 1),
        )
        self.shortcut = Convolution(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, channels, samples] to the same shape."""
        y: Tensor = self.shortcut(x) + self.block(x)
        return y


def activation(c: SeanetConfig, channels: int) -> nn.Module:
    """Return the configured activation."""
    return Snake(channels) if c.activation == "Snake" else nn.ELU()


class SeanetEncoder(nn.Module):
    """Map waves [batch, 1, samples] to features [batch, dimension, ceil(samples / hop)]."""

    def __init__(self, c: SeanetConfig) -> None:
        super().__init__()
        channels = c.n_filters
        modules: list[nn.Module] = [Convolution(1, channels, OUTER_KERNEL)]
        for stride in reversed(c.strides):
            modules += _residuals(channels, c)
            modules += [
                activation(c, channels),
                Convolution(channels, 2 * channels, 2 * stride, stride=stride),
            ]
            channels *= 2
        if c.lstm_layers:
            modules.append(SeanetLSTM(channels, c.lstm_layers, bidirectional=c.bidirectional))
        channels *= 2 if c.bidirectional else 1
        modules += [activation(c, channels), Convolution(channels, c.dimension, OUTER_KERNEL)]
        self.model = nn.Sequential(*modules)

    def forward(self, waves: Tensor) -> Tensor:
        """Return the features of waves."""
        features: Tensor = self.model(waves)
        return features

    def ragged(self, waves: list[Tensor]) -> list[Tensor]:
        """Return the features of waves [1, 1, samples] of different lengths, each as if alone.

        The recurrent layers take them together; the convolutions of one wave fill a GPU.
        """
        parts = waves
        for module in self.model:
            if isinstance(module, SeanetLSTM):
                parts = module.ragged(parts)
            else:
                parts = [module(part) for part in parts]
        return parts


class SeanetDecoder(nn.Module):
    """Map features [batch, dimension, frames] to waves [batch, 1, frames * hop]."""

    def __init__(self, c: SeanetConfig) -> None:
        super().__init__()
        channels = c.n_filters * 2 ** len(c.strides)
        modules: list[nn.Module] = [Convolution(c.dimension, channels, OUTER_KERNEL)]
        if c.lstm_layers:
            modules.append(SeanetLSTM(channels, c.lstm_layers, bidirectional=False))
        for stride in c.strides:
            modules += [activation(c, channels), Upsampling(channels, channels // 2, stride)]
            channels //= 2
            modules += _residuals(channels, c)
        modules += [activation(c, channels), Convolution(channels, 1, OUTER_KERNEL)]
        self.model = nn.Sequential(*modules)

    def forward(self, features: Tensor) -> Tensor:
        """Return the waves of features."""
        waves: Tensor = self.model(features)
        return waves


def _residuals(channels: int, c: SeanetConfig) -> list[nn.Module]:
    return [Residual(channels, c.dilation_base**j, c) for j in range(c.n_residual_layers)]


def _length(weight: Tensor) -> Tensor:
    """Return the Euclidean length over all but the first dimension, [first, 1, 1]."""
    return weight.square().sum((1, 2), keepdim=True).sqrt()


def _reflected(x: Tensor, left: int, right: int) -> Tensor:
    """Pad by reflection; inputs shorter than the padding are first extended by zeros."""
    short = max(left, right) - x.shape[-1] + 1
    if short <= 0:
        return F.pad(x, (left, right), "reflect")
    padded = F.pad(F.pad(x, (0, short)), (left, right), "reflect")
    return padded[..., : padded.shape[-1] - short]
