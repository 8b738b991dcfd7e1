"""Collect what chosen layers of a decoder are fed, for drafters that read it (EAGLE-3, DFlash)."""

from collections.abc import Sequence

import torch
from torch import Tensor


class Taps:
    """Records the residual stream before each of some layers during one pass.

    Layers count from 0: that before layer i is what transformers calls `hidden_states[i]`.
    """

    def __init__(self, layers: Sequence[int]) -> None:
        self.layers = tuple(layers)
        self._seen: dict[int, Tensor] = {}

    def see(self, layer: int, states: Tensor) -> None:
        """Keep the states that a layer is fed, if it is one of those chosen."""
        if layer in self.layers:
            self._seen[layer] = states

    def joined(self, batch: int) -> Tensor:
        """Return the states side by side, in the order of `layers`: [batch, new, n * hidden]."""
        states = (self._seen[layer] for layer in self.layers)
        return torch.cat([one.view(batch, -1, one.shape[-1]) for one in states], -1)
