"""Implement ECAPA-TDNN (Desplanques et al., Interspeech 2020) for UniSpeech's checkpoints.

Module names are those of the checkpoint's tensors. Each 1-D block is convolution, ReLU, batch norm.
"""

import torch
from torch import Tensor, nn


class _Block(nn.Module):
    """Convolution, ReLU, batch norm."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, padding=padding)
        self.bn = nn.BatchNorm1d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, inputs, frames] to [batch, outputs, frames]."""
        return self.bn(torch.relu(self.conv(x)))  # type: ignore[no-any-return]


class _Res2(nn.Module):
    """Dilated convolutions over 8 channel slices, each adding the one before but the last."""

    def __init__(self, channels: int, dilation: int, scale: int = 8) -> None:
        super().__init__()
        self.width = channels // scale
        self.convs = nn.ModuleList(
            nn.Conv1d(self.width, self.width, 3, padding=dilation, dilation=dilation)
            for _ in range(scale - 1)
        )
        self.bns = nn.ModuleList(nn.BatchNorm1d(self.width) for _ in range(scale - 1))

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, channels, frames] to the same shape."""
        slices = torch.split(x, self.width, 1)
        outputs: list[Tensor] = []
        for conv, norm, part in zip(self.convs, self.bns, slices, strict=False):
            outputs.append(norm(torch.relu(conv(part + outputs[-1] if outputs else part))))
        return torch.cat([*outputs, slices[-1]], 1)


class _Squeeze(nn.Module):
    """Squeeze and excitation: channels weighted by their mean over time."""

    def __init__(self, channels: int, bottleneck: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(channels, bottleneck)
        self.linear2 = nn.Linear(bottleneck, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, channels, frames] to the same shape."""
        weights = torch.sigmoid(self.linear2(torch.relu(self.linear1(x.mean(2)))))
        return x * weights.unsqueeze(2)


class _SeRes2(nn.Module):
    """Squeeze-excited Res2 block with a residual connection (inputs = outputs)."""

    def __init__(self, channels: int, dilation: int, bottleneck: int) -> None:
        super().__init__()
        self.Conv1dReluBn1 = _Block(channels, channels)
        self.Res2Conv1dReluBn = _Res2(channels, dilation)
        self.Conv1dReluBn2 = _Block(channels, channels)
        self.SE_Connect = _Squeeze(channels, bottleneck)

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, channels, frames] to the same shape."""
        inner = self.Conv1dReluBn2(self.Res2Conv1dReluBn(self.Conv1dReluBn1(x)))
        return x + self.SE_Connect(inner)  # type: ignore[no-any-return]


class _Pool(nn.Module):
    """Attentive statistics: mean and standard deviation under learned weights over time."""

    def __init__(self, channels: int, attention: int) -> None:
        super().__init__()
        self.linear1 = nn.Conv1d(channels, attention, 1)
        self.linear2 = nn.Conv1d(attention, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, channels, frames] to [batch, 2 channels]."""
        weights = torch.softmax(self.linear2(torch.tanh(self.linear1(x))), dim=2)
        mean = (weights * x).sum(2)
        variance = (weights * x**2).sum(2) - mean**2
        return torch.cat([mean, variance.clamp(min=1e-9).sqrt()], 1)


class Ecapa(nn.Module):
    """Map hidden layers, mixed by `feature_weight`, to one embedding."""

    def __init__(
        self,
        layers: int,
        features: int,
        channels: int = 512,
        pooled: int = 1536,
        embedding: int = 256,
        bottleneck: int = 128,
    ) -> None:
        super().__init__()
        self.feature_weight = nn.Parameter(torch.zeros(layers))
        self.instance_norm = nn.InstanceNorm1d(features)
        self.layer1 = _Block(features, channels, 5, 2)
        self.layer2 = _SeRes2(channels, 2, bottleneck)
        self.layer3 = _SeRes2(channels, 3, bottleneck)
        self.layer4 = _SeRes2(channels, 4, bottleneck)
        self.conv = nn.Conv1d(3 * channels, pooled, 1)
        self.pooling = _Pool(pooled, bottleneck)
        self.bn = nn.BatchNorm1d(2 * pooled)
        self.linear = nn.Linear(2 * pooled, embedding)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map hidden layers [layers, batch, frames, features] to [batch, embedding]."""
        weights = torch.softmax(self.feature_weight, 0)
        mixed = torch.einsum("l,lbtf->bft", weights, hidden) + 1e-6
        first = self.layer1(self.instance_norm(mixed))
        second = self.layer2(first)
        third = self.layer3(second)
        parts = torch.cat([second, third, self.layer4(third)], 1)
        return self.linear(self.bn(self.pooling(torch.relu(self.conv(parts)))))  # type: ignore[no-any-return]
