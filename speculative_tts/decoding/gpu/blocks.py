"""Blocks of tokens by kernels: drafts of heads and of look-up, and what a path search commits.

Each function says which torch code is its reference; tensors are a `BatchState`'s.
"""

import torch
from torch import Tensor

from speculative_tts.decoding.gpu.arguments import DraftLaws, Matches, PromptIds
from speculative_tts.decoding.gpu.draws import cut
from speculative_tts.decoding.gpu.launch import launch
from speculative_tts.decoding.gpu.rounds import RowTensors, arguments_of
from speculative_tts.models.gpu.triton_runtime import power_of_2

TILE = 1024  # tokens, or ids, that a program reads at a time


def write_draws(rows: RowTensors, laws: Tensor, step: int, purpose: int) -> Tensor:
    """Draw the tokens from `step` after the newest from laws [batch, number, vocab].

    Write them and return them [batch, number]; see `choosers.IndependentHeads`.
    """
    batch, number, vocab = laws.shape
    out = rows.count.new_empty(batch, number)
    sums, parts = cut(batch, laws)
    launch(
        "blocks.drawn_kernel", (batch,),
        arguments_of(rows), step, DraftLaws(laws.contiguous(), number, vocab), out, sums,
        PURPOSE=purpose, **parts,
    )  # fmt: skip
    return out


def drafted(rows: RowTensors, number: int) -> Tensor:
    """Return how many of the next tokens each row may draft; `drafter.up_to_stop` of `room`."""
    out = torch.empty_like(rows.count)
    launch(
        "blocks.counted_kernel", (len(out),), arguments_of(rows), out, number,
        SIZE=power_of_2(number), num_warps=1,
    )  # fmt: skip
    return out


def commit(
    rows: RowTensors, block: Tensor, dead: Tensor | None, made: Tensor, lost: Tensor
) -> None:
    """Commit a block [batch, number] as `BatchState.commit`.

    Add to `made` blocks of each row, and to `lost` those that are dead.
    """
    batch, number = block.shape
    launch(
        "blocks.commit_kernel", (batch,),
        arguments_of(rows), block.contiguous(), number, made, dead, lost,
        SIZE=power_of_2(number), num_warps=1,
    )  # fmt: skip


def looked_up(
    rows: RowTensors, heard: Tensor, lookahead: int, runs: tuple[int, int], vocab: int
) -> tuple[Tensor, Tensor]:
    """Draft what followed the longest match; `LookupDrafting.propose` is the reference.

    runs: the longest match that is looked for, and the shortest that counts.
    """
    batch = len(rows.count)
    out = torch.empty_like(rows.count)
    laws = torch.empty(batch, lookahead, vocab, device=heard.device)
    launch(
        "blocks.lookup_kernel", (batch,),
        arguments_of(rows), PromptIds(heard, heard.shape[1]), Matches(*runs), out,
        DraftLaws(laws, lookahead, vocab), SIZE=power_of_2(lookahead), TILE=TILE, num_warps=4,
    )  # fmt: skip
    return out, laws
