"""The weights of a decoder-only transformer: matrices by layer, and the final norm."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.matrix import Matrix


@dataclass(frozen=True)
class DecoderLayer:
    """Matrices of one layer, with their biases.

    Folded in: the gains of the two RMSNorms times sqrt(hidden) (see `Decoder._normed`) in `qkv` and
    `gate_up`, the attention scale in the queries' columns. The dimensions of each query and key
    head are reordered so that RoPE's partners lie side by side (see `Decoder._turn`). `gains` are
    those of the RMSNorm of each query and then of each key head, where there is one, times
    sqrt(head_dim); the queries' carry the attention scale then.
    """

    qkv: Matrix
    out: Matrix
    gate_up: Matrix
    down: Matrix
    gains: Float[Tensor, "turned head_dim"] | None = None  # float32

    def matrices(self) -> tuple[Matrix, ...]:
        """Return the matrices in the order of a pass."""
        return self.qkv, self.out, self.gate_up, self.down


class DecoderStack:
    """Layers and the final norm, of the sizes that `config` has."""

    def __init__(self, config: DecoderConfig, layers: list[DecoderLayer], norm: Tensor) -> None:
        self.config, self.layers, self.norm = config, layers, norm
        self.device, self.dtype = norm.device, norm.dtype
