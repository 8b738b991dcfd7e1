"""Multi-token heads: n predictions from one final hidden state, and the folder they are kept in.

Head i predicts token t + 1 + i from the hidden state of position t (after the final norm); head 0
is the target's own output head. The folder holds heads.json (for which target, n, hidden, vocab,
kind) and heads.safetensors:

- `heads.weight` [n, vocab, hidden], perhaps in 8 bits (`decoder.packed`), `heads.bias` [n, vocab]
  if the target's head has one;
- kind `residual` (Medusa's block, arXiv 2401.10774): `block.weight` [n, hidden, hidden] and
  `block.bias` [n, hidden]; head i reads z + silu(block_i z). Head 0's block is zero.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from speculative_tts.files import files_hash
from speculative_tts.models.decoder.loading import read_tensors
from speculative_tts.models.decoder.matrix import Matrix, matrix, packed
from speculative_tts.models.decoder.packed import require_plain, unpack
from speculative_tts.models.gpu.tiles import FEW
from speculative_tts.models.gpu.triton_runtime import suits
from speculative_tts.native import blocks
from speculative_tts.native.library import library
from speculative_tts.state_dicts import write_tensors
from speculative_tts.typed import read_json, write_json

FORMAT = 1  # of every folder that `write_trained` writes
DESCRIPTION = "heads.json"
WEIGHTS = "heads.safetensors"
KINDS = ("linear", "residual")
NAMES = ("heads.weight", "heads.bias", "block.weight", "block.bias")
_CHECKPOINTS = ("*.safetensors", "*.pt")


@dataclass(frozen=True)
class HeadTensors:
    """Stored tensors: weight [n, vocab, hidden]; the others by kind (see the module)."""

    weight: Tensor
    bias: Tensor | None = None
    block_weight: Tensor | None = None
    block_bias: Tensor | None = None

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return "linear" if self.block_weight is None else "residual"

    @property
    def parts(self) -> tuple[Tensor | None, ...]:
        """The tensors in the order of `NAMES`."""
        return self.weight, self.bias, self.block_weight, self.block_bias

    def each(self, change: Callable[[Tensor], Tensor]) -> "HeadTensors":
        """Return every tensor changed."""
        others = (None if part is None else change(part) for part in self.parts[1:])
        return HeadTensors(change(self.weight), *others)


class Heads:
    """The first n heads, each a product of its own."""

    def __init__(self, tensors: HeadTensors) -> None:
        self.n, self.vocab_size, self.hidden = tensors.weight.shape
        self._project = [
            matrix(weight.T, None if tensors.bias is None else tensors.bias[head])
            for head, weight in enumerate(tensors.weight)
        ]
        self._blocks: list[Matrix] = []
        if tensors.block_weight is not None:
            assert tensors.block_bias is not None
            pairs = zip(tensors.block_weight, tensors.block_bias, strict=True)
            self._blocks = [matrix(weight.T, bias) for weight, bias in pairs]
        self.native = self._natively()
        self._together: Matrix | None = None  # all linear heads as one, where kernels take it
        if self.native is None and not self._blocks:
            bias = None if tensors.bias is None else tensors.bias.flatten()
            self._together = matrix(tensors.weight.flatten(0, 1).T, bias)

    @property
    def nbytes(self) -> int:
        """Bytes of weights."""
        return sum(part.nbytes for part in (*self._project, *self._blocks))

    def _natively(self) -> blocks.NativeHeads | None:
        """Return all heads for one native call; None unless their matrices are packed for it."""
        linears = packed(*self._project, *self._blocks)
        return blocks.NativeHeads.of(linears[: self.n], linears[self.n :]) if linears else None

    def __call__(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [batch, n, vocab] of hidden states [batch, hidden]."""
        if self.native is not None and (native := library()) is not None:
            return blocks.logits(native, self.native, hidden, self.vocab_size)
        if self._together is not None and len(hidden) <= FEW and suits(hidden):
            return self._together.in_float32(hidden).view(len(hidden), self.n, self.vocab_size)
        inner = [hidden + F.silu(block(hidden)) for block in self._blocks] or [hidden] * self.n
        logits = [project(x) for project, x in zip(self._project, inner, strict=True)]
        return torch.stack(logits, 1).float()


def save_heads(
    folder: Path, tensors: HeadTensors, *, target: Path, about: dict[str, Any] | None = None
) -> None:
    """Write heads of the checkpoint folder `target`; `about` holds facts for people.

    Tensors are stored in the dtype they come in. heads.json comes last: a folder with it is whole.
    """
    n, vocab, hidden = tensors.weight.shape
    named = zip(NAMES, tensors.parts, strict=True)
    stored = {name: t.detach().cpu().contiguous() for name, t in named if t is not None}
    sizes = {"kind": tensors.kind, "n": n, "vocab": vocab, "hidden": hidden}
    write_trained(folder / DESCRIPTION, stored, sizes, target, about)


def write_trained(
    description: Path,
    tensors: dict[str, Tensor],
    sizes: dict[str, Any],
    target: Path,
    about: dict[str, Any] | None,
) -> None:
    """Write what was trained for a target: tensors, then in .json their sizes and the target."""
    description.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(description.with_suffix(".safetensors"), tensors)
    made_of = {"target": target_hash(target), "about": about or {}}
    write_json(description, {"format": FORMAT} | sizes | made_of)


def load_heads(
    folder: Path, n: int | None, *, target: Path, dtype: torch.dtype, device: torch.device
) -> Heads:
    """Load the first `n` heads of a folder (None: all).

    Raises ValueError when they were made for another target than the checkpoint folder `target`,
    when there are fewer than n, or when the folder is broken.
    """
    tensors = heads_of(folder, target)
    most = len(tensors.weight)
    chosen = most if n is None else n
    if not 1 <= chosen <= most:
        raise ValueError(f"heads.n {chosen} is not in 1 to {most}, the heads in {folder}")
    return Heads(tensors.each(lambda part: part[:chosen].to(device, dtype)))


def heads_of(folder: Path, target: Path) -> HeadTensors:
    """Read the heads of the checkpoint folder `target`; raise ValueError for those of another."""
    tensors, description = read_heads(folder)
    remedy = f"sst-train-heads target.path={target}"
    require_target(f"heads {folder} were trained", description["target"], target, remedy)
    return tensors


def require_target(what: str, trained_for: str, target: Path, remedy: str) -> None:
    """Raise ValueError where `what` was trained for another target; `remedy` trains its own."""
    if trained_for != (own := target_hash(target)):
        raise ValueError(
            f"{what} for another target (weights {trained_for[:12]}), {target} has {own[:12]}; "
            f"train its own with {remedy}"
        )


def read_heads(folder: Path) -> tuple[HeadTensors, dict[str, Any]]:
    """Read tensors as stored and heads.json; raise ValueError if something is missing or broken."""
    path = folder / DESCRIPTION
    description = read_json(path, "make heads with sst-train-heads")
    try:
        known = description["format"] == FORMAT and description["kind"] in KINDS
        stored = unpack(read_tensors(folder / WEIGHTS))
        require_plain(folder / WEIGHTS, stored)
        assert stored.keys() <= set(NAMES), f"{sorted(stored)} are not {NAMES}"
        tensors = HeadTensors(stored[NAMES[0]], *map(stored.get, NAMES[1:]))
        shape = [description[key] for key in ("n", "vocab", "hidden")]
        assert isinstance(description["target"], str)
    except (KeyError, ValueError, AssertionError) as error:
        raise ValueError(f"heads {folder} are not readable ({error!r}); make them again") from error
    if not known or list(tensors.weight.shape) != shape or tensors.kind != description["kind"]:
        raise ValueError(f"heads {folder}: {DESCRIPTION} and {WEIGHTS} differ; make them again")
    return tensors, description


def target_hash(folder: Path) -> str:
    """Return the SHA-256 of a checkpoint folder's weight files in name order, or of one file."""
    files = [folder] if folder.is_file() else []
    files = files or sorted({f for pattern in _CHECKPOINTS for f in folder.glob(pattern)})
    if not files:
        raise ValueError(f"no weights ({', '.join(_CHECKPOINTS)}) in {folder}; give a checkpoint")
    return files_hash(files)
