"""A recurrent drafter's layer on a GPU, in three kernels a block.

`models.recurrent` is the reference.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from speculative_tts.models.decoder.matrix import Dense, Matrix
from speculative_tts.models.gpu.norms import joined
from speculative_tts.models.gpu.products import Fused, product
from speculative_tts.models.gpu.tiles import FEW
from speculative_tts.models.gpu.triton_runtime import suits

Blocks = Sequence[tuple[Matrix, Matrix]]  # inner and outer matrix of each


def takes(blocks: Blocks, states: Tensor) -> bool:
    """Return whether `step` has kernels for so many rows of these formats."""
    matrices = [matrix for block in blocks for matrix in block]
    dense = all(isinstance(one, Dense) for one in matrices)
    return dense and len(states) <= FEW and suits(states)


def step(blocks: Blocks, states: Tensor, inputs: Tensor) -> Tensor:
    """Return the states after tokens of these inputs, [rows, hidden] all."""
    for inner, outer in blocks:
        assert isinstance(inner, Dense)
        assert isinstance(outer, Dense)
        both = joined(states, inputs, inner.fed)
        wide = product(both, inner.by_output(), Fused(inner.bias, silu=True))
        dtype = torch.promote_types(states.dtype, outer.fed)
        states = product(wide, outer.by_output(), Fused(outer.bias, states), dtype=dtype)
    return states
