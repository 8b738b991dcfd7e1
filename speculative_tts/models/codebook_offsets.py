"""Let a talker's frozen heads draft several codes of a frame by a small step for each offset.

The state h that code c was drawn from, and the input e that c is to the depth decoder, become the
state that the head of the k-th codebook after c's own reads:

    h + out_k silu(inner_k [h, e] + bias_k[codebook])

The bias is of the codebook that is drafted; the heads are the target's own. With out = 0 they read
h as it is. The folder holds codebooks.json (for which target, sizes) and codebooks.safetensors:
`inner` [n, width, 2 hidden], `bias` [n, codebooks, width], `out` [n, hidden, width].
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float, Int64
from torch import Tensor

from speculative_tts.models.decoder.loading import read_tensors
from speculative_tts.models.decoder.packed import require_plain
from speculative_tts.models.heads import FORMAT, require_target, write_trained
from speculative_tts.typed import read_json

DESCRIPTION, WEIGHTS = "codebooks.json", "codebooks.safetensors"
REMEDY = "make it with sst-train-heads kind=codebooks"
States = Float[Tensor, "codes hidden"]


@dataclass(frozen=True)
class CodebookOffsets:
    """The steps of n offsets, as they are stored."""

    inner: Float[Tensor, "n width both"]
    bias: Float[Tensor, "n codebooks width"]
    out: Float[Tensor, "n hidden width"]

    @property
    def n(self) -> int:
        """Return the number of offsets."""
        return len(self.out)

    @property
    def fits(self) -> bool:
        """Return True if the tensors are those of one drafter."""
        n, hidden, width = self.out.shape
        return self.inner.shape == (n, width, 2 * hidden) and self.bias.shape[::2] == (n, width)

    def __call__(
        self, states: States, inputs: States, offset: int, books: Int64[Tensor, " codes"]
    ) -> States:
        """Return the states for the heads of `books`, `offset` (from 1) after the newest codes'."""
        at = offset - 1
        wide = F.linear(torch.cat([states, inputs], -1), self.inner[at]) + self.bias[at][books]
        return states + F.linear(F.silu(wide), self.out[at])

    def save(self, folder: Path, *, target: Path, about: dict[str, Any] | None = None) -> None:
        """Write the steps of the checkpoint folder `target`; `about` holds facts for people.

        codebooks.json comes last: a folder with it is whole.
        """
        tensors = {"inner": self.inner, "bias": self.bias, "out": self.out}
        stored = {name: part.detach().cpu().contiguous() for name, part in tensors.items()}
        (n, hidden, width), codebooks = self.out.shape, self.bias.shape[1]
        sizes = {"n": n, "hidden": hidden, "width": width, "codebooks": codebooks}
        write_trained(folder / DESCRIPTION, stored, sizes, target, about)


def load_offsets(folder: Path, target: Path, hidden: int, codebooks: int) -> CodebookOffsets:
    """Read the steps of the checkpoint folder `target`.

    Raises ValueError for those of another target, for a broken folder and where there are none.
    """
    description = read_json(folder / DESCRIPTION, REMEDY)
    try:
        stored = read_tensors(folder / WEIGHTS)
        require_plain(folder / WEIGHTS, stored)
        tensors = CodebookOffsets(*(stored[name].float() for name in ("inner", "bias", "out")))
        assert description["format"] == FORMAT
        assert tensors.fits
        assert (tensors.out.shape[1], tensors.bias.shape[1]) == (hidden, codebooks)
        assert isinstance(description["target"], str)
    except (LookupError, TypeError, ValueError, AssertionError) as error:
        raise ValueError(
            f"codebook drafter {folder} is not readable ({error!r}); {REMEDY} again"
        ) from error
    require_target(f"{folder} drafts", description["target"], target, "sst-train-heads")
    return tensors
