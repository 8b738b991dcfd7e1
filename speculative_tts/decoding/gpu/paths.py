"""Path search over the candidates of heads by kernels; `blocks.choosers` is the reference."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from speculative_tts.decoding.blocks.transitions import DenseTransitions
from speculative_tts.decoding.blocks.viterbi import PathSearch
from speculative_tts.decoding.gpu.draws import cut
from speculative_tts.decoding.gpu.launch import launch, runs
from speculative_tts.decoding.gpu.laws import EARLY, EVERYWHERE, MOST, Likeliest, logit_rows
from speculative_tts.decoding.gpu.path_arguments import (
    EndingConstants,
    Endings,
    HeadStates,
    PathConstants,
    PathLattice,
    PathOutcome,
    StopIds,
    TransitionLogs,
    WalkOutcome,
)
from speculative_tts.decoding.gpu.rounds import RowTensors, arguments_of
from speculative_tts.decoding.sampling.sampler import StopRule
from speculative_tts.models.gpu.triton_runtime import power_of_2

WIDEST = 512  # states of a position
TILE = 16  # states whose ways from all others a program looks at together
FORMATS = (torch.float32, torch.int64)  # of transitions


class SearchRows(RowTensors, Protocol):
    """Tensors of a `BatchState` that a path search reads."""

    stop: StopRule


@dataclass(frozen=True)
class PathKernels:
    """A `choosers.ViterbiHeads` by kernels."""

    search: PathSearch
    stop_ids: Tensor  # int64
    temperature: float
    sample: bool
    end_when_likeliest: bool

    def takes(self, logits: Tensor) -> bool:
        """Return whether there are kernels for logits [batch, n, vocab] of heads."""
        if not runs(logits) or logits.dtype is not torch.float32:
            return False
        formats = {one.dtype for one in self.search.transitions.arrays.values()}
        top = self.search.top_k
        return top <= MOST and logits.shape[1] * top <= WIDEST and formats <= set(FORMATS)

    def block(
        self, logits: Tensor, positions: Tensor, rows: SearchRows, before: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return a block's tokens [batch, n], and which rows have no possible path."""
        block, dead, _ = self._path(logits, positions, rows, before, drafts=False)
        return block, dead

    def draft(self, logits: Tensor, positions: Tensor, rows: SearchRows) -> Tensor:
        """Write a block to the rows and return the distribution of each of its tokens."""
        if not self.sample:
            return self._path(logits, positions, rows, None, drafts=True)[2]
        given = PathArguments(self, logits, positions, rows)
        batch, number, _ = logits.shape
        messages = torch.empty(batch, number, given.size, device=logits.device)
        sums, parts = cut(batch, given.laws)
        launch(
            "paths.walk_kernel", (batch,),
            *given.tensors, WalkOutcome(messages, given.laws, sums),
            LATTICE=given.constants, **parts,
        )  # fmt: skip
        return given.laws

    def _path(
        self,
        logits: Tensor,
        positions: Tensor,
        rows: SearchRows,
        before: Tensor | None,
        *,
        drafts: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return a block, dead rows and distributions, which are zeros unless it is a draft."""
        given = PathArguments(self, logits, positions, rows)
        batch, number, _ = logits.shape
        reached = torch.empty(batch, 2, given.size, device=logits.device)
        back = torch.empty(batch, number, given.size, dtype=torch.int32, device=logits.device)
        block, dead = rows.count.new_empty(batch, number), rows.done.new_empty(batch)
        launch(
            "paths.path_kernel", (batch,),
            *given.tensors, before,
            PathOutcome(reached, back, block, dead, given.laws if drafts else None),
            LATTICE=given.constants, num_warps=8,
        )  # fmt: skip
        return block, dead, given.laws


class PathArguments:
    """Candidates of all heads, what each says of the end, and arguments of kernels about them."""

    def __init__(
        self, by: PathKernels, logits: Tensor, positions: Tensor, rows: SearchRows
    ) -> None:
        (batch, number, vocab), search, stop = logits.shape, by.search, rows.stop
        given = logit_rows(logits, positions, stop.minimum, stop.is_stop, by.temperature)
        top = min(search.top_k, vocab)
        likeliest = Likeliest(given, top, EARLY if by.sample else EVERYWHERE)
        self.laws = likeliest.out
        width = number * top if search.union else top
        self.size = power_of_2(width, TILE)
        stride = top if search.union else self.size
        states = likeliest.found.ids.new_empty(batch, number, stride)
        over, stops = logits.new_empty(batch, number), len(by.stop_ids)
        said = Endings(
            over,
            torch.empty_like(over, dtype=torch.int64),
            torch.empty_like(over, dtype=torch.bool),
        )
        ending = EndingConstants(
            power_of_2(stops) if stops else 0, by.sample, by.end_when_likeliest
        )
        launch(
            "lattice.heads_kernel", (batch * number,),
            given, likeliest.found, StopIds(by.stop_ids, stops), HeadStates(states, stride), said,
            CHOICE=likeliest.choice, ENDING=ending, num_warps=likeliest.warps,
        )  # fmt: skip
        if search.union:
            flat, states = states, states.new_empty(batch, self.size)
            launch(
                "lattice.union_kernel", (batch,), flat, states, width, vocab,
                SIZE=self.size, TILE=TILE, num_warps=8,
            )  # fmt: skip
        table = search.transitions
        dense, arrays = isinstance(table, DenseTransitions), table.arrays
        keys, seen, row, column = (arrays["table"],) * 4 if dense else arrays.values()
        length = 0 if dense else len(arrays["keys"])
        lattice = PathLattice(
            given.logits, states, stop.is_stop, number, width, vocab, by.temperature
        )
        logs = TransitionLogs(keys, seen, row, column, table.ids, length)
        self.tensors = (arguments_of(rows), lattice, said, logs)
        self.constants = PathConstants(
            self.size, TILE, search.union, search.boundary, stops > 0, by.sample, dense,
            length.bit_length(),
        )  # fmt: skip
