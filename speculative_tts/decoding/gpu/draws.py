"""Draw tokens, and pick states of rows, by kernels."""

from typing import Any

import torch
from torch import Tensor

from speculative_tts.decoding.gpu.arguments import Cut
from speculative_tts.decoding.gpu.launch import launch
from speculative_tts.models.gpu.triton_runtime import power_of_2

AT_ONCE = 8192  # probabilities that a program sums at a time
LINES = (256, 1024)  # probabilities whose sum is looked at as one, of few ids and of many
MANY = 16_384  # ids that are many


def draw(probs: Tensor, uniform: Tensor) -> Tensor:
    """Draw a token of each row of probs [..., vocab]: int64 [...]; see `randomness.draw`."""
    out = torch.empty(probs.shape[:-1], dtype=torch.int64, device=probs.device)
    sums, parts = cut(out.numel(), probs)
    given = (probs.contiguous(), uniform.contiguous(), out, sums, probs.shape[-1])
    launch("rounds.draw_kernel", (out.numel(),), *given, **parts)
    return out


def pick(x: Tensor, index: Tensor) -> Tensor:
    """Return x[row, index[row]] of x [batch, number, width]: [batch, width]."""
    batch, number, width = x.shape
    out, tile = x.new_empty(batch, width), min(1024, power_of_2(width))
    grid = (batch, -(-width // tile))
    launch("rounds.pick_kernel", grid, x.contiguous(), index, out, number, width, TILE=tile)
    return out


def cut(rows: int, probs: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Return scratch memory for sums of lines, and how a program cuts the vocabulary."""
    vocab = probs.shape[-1]
    line = LINES[vocab > MANY]
    lines = power_of_2(-(-vocab // line))
    sums = torch.empty(rows * lines, dtype=torch.float64, device=probs.device)
    at_once = min(lines, AT_ONCE // line)
    warps = max(1, min(8, at_once * line // 512))  # with 16 ptxas spills for sm_100
    return sums, {"CUT": Cut(at_once, line, lines), "num_warps": warps}
