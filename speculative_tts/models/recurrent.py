"""A recurrent drafter's layer (EAGLE and Hydra family), and the folder it is kept in.

Of the target's state h that the newest token was drawn from, and that token's input e, block after
block:

    h <- h + out silu(inner [h, e])

The target's own head reads h' as it reads its states: that is the distribution of the token after.
That token, drawn, and h' go in again. So there is neither a cache nor a prompt, and embedding and
head are the target's, the head in a format of its own: it is most of what a drafted token reads,
and any distribution that is drawn from may be proposed, and one over the most frequent ids alone
(FR-Spec, Zhao et al., 2025) reads only their rows. The folder holds recurrent.json (for which
target, sizes) and recurrent.safetensors: `inner.weight` [width, 2 hidden], `inner.bias`,
`out.weight` [hidden, width] and `out.bias` of the first block, of the second one `1.inner.weight`
and so on, matrices in 8 bits (`decoder.packed`), and `frequent` [vocab], speech ids by how often
they were said in training, the most frequent first.
"""

from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float
from torch import Tensor

from speculative_tts.models.decoder.loading import read_tensors
from speculative_tts.models.decoder.matrix import Matrix, matrix, packed
from speculative_tts.models.decoder.packed import pack, require_plain, unpack
from speculative_tts.models.gpu import recurrent as gpu
from speculative_tts.models.gpu.norms import spread
from speculative_tts.models.gpu.triton_runtime import suits
from speculative_tts.models.heads import FORMAT, require_target, write_trained
from speculative_tts.models.slots import Slots
from speculative_tts.native import recurrent
from speculative_tts.native.library import library
from speculative_tts.typed import read_json

DESCRIPTION = "recurrent.json"
WEIGHTS = "recurrent.safetensors"
NAMES = ("inner.weight", "inner.bias", "out.weight", "out.bias")  # of a block
FREQUENT = "frequent"
States = Float[Tensor, "batch hidden"]


class BlockTensors(NamedTuple):
    """Return a block's stored tensors, in the order of `NAMES`."""

    inner: Tensor
    inner_bias: Tensor
    out: Tensor
    out_bias: Tensor


@dataclass(frozen=True)
class LayerTensors:
    """Return the stored tensors, and `FREQUENT` where it is known."""

    blocks: tuple[BlockTensors, ...]
    frequent: Tensor | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """Hidden units, and a block's own."""
        hidden, width = self.blocks[0].out.shape
        return hidden, width

    @property
    def fits(self) -> bool:
        """True if these tensors are one layer's."""
        hidden, width = self.sizes
        wanted = [(width, 2 * hidden), (width,), (hidden, width), (hidden,)]
        return all([tuple(part.shape) for part in block] == wanted for block in self.blocks)

    def to(self, device: torch.device, dtype: torch.dtype) -> "LayerTensors":
        """Return the layer on a device, in a number format."""
        blocks = (BlockTensors(*(part.to(device, dtype) for part in b)) for b in self.blocks)
        return replace(self, blocks=tuple(blocks))


class RecurrentLayer:
    """The layer, loaded, with the target's head, in a format of their own.

    Of the head the rows of `few` ids [n] alone, if they are given.
    """

    def __init__(
        self, tensors: LayerTensors, head: Matrix, dtype: torch.dtype, few: Tensor | None = None
    ) -> None:
        self.hidden, self.width = tensors.sizes
        self._vocab, self._few = head.shape[1], few
        self._place: Tensor | None = None
        self._inner = [matrix(b.inner.T, b.inner_bias, dtype) for b in tensors.blocks]
        self._out = [matrix(b.out.T, b.out_bias, dtype) for b in tensors.blocks]
        self._head = head.to(dtype) if few is None else head.columns(few).to(dtype)
        linears, n = packed(*self._inner, *self._out, self._head), len(self._inner)
        own = linears[:n], linears[n:-1], linears[-1:]
        self.native = recurrent.Recurrent.of(*own, few=few) if linears else None

    @property
    def nbytes(self) -> int:
        """Bytes of weights that a step reads."""
        return sum(one.nbytes for one in (*self._inner, *self._out, self._head))

    def __call__(self, states: States, inputs: States) -> States:
        """Return the states after tokens of these inputs."""
        if self.native is not None and (native := library()) is not None:
            return recurrent.step(native, self.native, states, inputs)
        blocks = list(zip(self._inner, self._out, strict=True))
        if gpu.takes(blocks, states):
            return gpu.step(blocks, states, inputs)
        for inner, out in blocks:
            both = torch.cat([states.to(inner.fed), inputs.to(inner.fed)], -1)
            states = states + out(F.silu(inner(both)))
        return states

    def logits(self, states: States) -> Float[Tensor, "batch vocab"]:
        """Return float32 logits of the tokens that follow; -inf for those never drafted."""
        logits = self._head.in_float32(states.to(self._head.fed))
        if self._few is None:
            return logits
        if suits(logits):
            return spread(logits, self._places())
        return logits.new_full((len(logits), self._vocab), -torch.inf).index_copy(
            1, self._few, logits
        )

    def _places(self) -> Tensor:
        """Return the place of each id among the few, int32 [vocab], -1 of one that is not there."""
        assert self._few is not None
        if self._place is None or self._place.device != self._few.device:
            place = self._few.new_full((self._vocab,), -1)
            place[self._few] = torch.arange(len(self._few), device=self._few.device)
            self._place = place.int()
        return self._place


def save_layer(
    folder: Path, tensors: LayerTensors, *, target: Path, about: dict[str, Any] | None = None
) -> None:
    """Write a layer of the checkpoint folder `target`, its matrices in 8 bits.

    `about` holds facts for people. recurrent.json comes last: a folder with it is whole.
    """
    stored = pack(
        {
            name: part.detach().cpu().contiguous()
            for number, block in enumerate(tensors.blocks)
            for name, part in zip(names_of(number), block, strict=True)
        }
    )
    if tensors.frequent is not None:
        stored[FREQUENT] = tensors.frequent.int()
    hidden, width = tensors.sizes
    sizes = {"hidden": hidden, "width": width, "blocks": len(tensors.blocks)}
    write_trained(folder / DESCRIPTION, stored, sizes, target, about)


def names_of(block: int) -> list[str]:
    """Return `NAMES` of a block as they are stored."""
    return [f"{block}.{name}" if block else name for name in NAMES]


def load_layer(
    folder: Path, *, target: Path, head: Matrix, dtype: torch.dtype, device: torch.device,
    codes: int | None = None, slots: Slots | None = None,
) -> RecurrentLayer:  # fmt: skip
    """Build it with its target's head, cut to the `codes` most frequent ids if given.

    Of codes in frames as many for each of their slots, and the ids that end the speech.

    ValueError for a layer of another target, and where there is none.
    """
    tensors = layer_of(folder, target)
    stored = head.fed if dtype is torch.int8 else dtype  # what there is where 8 bits are not
    moved = tensors.to(device, stored)
    few = None if codes is None else _most_frequent(folder, tensors, codes, slots).to(device)
    return RecurrentLayer(moved, head, dtype, few)


def layer_of(folder: Path, target: Path) -> LayerTensors:
    """Read the layer of the checkpoint folder `target`; raise ValueError for one of another."""
    tensors, description = read_layer(folder)
    remedy = "sst-train-heads kind=recurrent"
    require_target(f"{folder} drafts", description["target"], target, remedy)
    return tensors


def _most_frequent(folder: Path, tensors: LayerTensors, codes: int, slots: Slots | None) -> Tensor:
    """Return the `codes` most frequent ids, in ascending order."""
    if tensors.frequent is None:
        raise ValueError(
            f"{folder} does not say which codes are frequent; leave drafter.codes out, or train it "
            "again with sst-train-heads kind=recurrent"
        )
    if codes > len(tensors.frequent):
        raise ValueError(
            f"drafter.codes {codes} is above the {len(tensors.frequent)} ids of {folder}; "
            "leave it out for all"
        )
    ids = tensors.frequent.long()
    if slots is None:
        return ids[:codes].sort().values
    share = codes // len(slots.sizes)
    if not share:
        raise ValueError(
            f"drafter.codes {codes} is below the {len(slots.sizes)} slots of a frame; raise it"
        )
    own = [ids[(ids >= one.start) & (ids < one.stop)][:share] for one in slots.ranges]
    return torch.cat([*own, ids[ids >= slots.ends[-1]]]).sort().values


def read_layer(folder: Path) -> tuple[LayerTensors, dict[str, Any]]:
    """Read tensors, unpacked, and recurrent.json; raise ValueError if something is missing."""
    description = read_json(folder / DESCRIPTION, "make it with sst-train-heads kind=recurrent")
    try:
        stored = unpack(read_tensors(folder / WEIGHTS))
        require_plain(folder / WEIGHTS, stored, whole=(FREQUENT,))
        names = list(map(names_of, range(description.get("blocks", 1))))
        assert stored.keys() <= {FREQUENT, *chain.from_iterable(names)}, sorted(stored)
        blocks = tuple(BlockTensors(*(stored[name] for name in own)) for own in names)
        tensors = LayerTensors(blocks, stored.get(FREQUENT))
        assert description["format"] == FORMAT
        assert tensors.fits
        assert isinstance(description["target"], str)
    except (LookupError, TypeError, ValueError, AssertionError) as error:
        raise ValueError(
            f"recurrent drafter {folder} is not readable ({error!r}); make it again"
        ) from error
    return tensors, description
