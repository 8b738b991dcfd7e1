"""Make a trained target finer and deeper: the starting point of the fine tiny target.

A code of a finer codebook starts as the closest code of the coarser one, moved by a linear map of
the difference of the two entries, so that the model nearly knows it before any training.
Inserted layers start as copies that add nothing: the deeper model is the same function, exactly.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from speculative_tts.codecs.tiny import FRAMES_PER_TOKEN, TinyCodec
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.training.checkpoint import read_checkpoint
from speculative_tts.training.inherit import EMBEDDING, HEAD

RIDGE = 0.02
"""Ridge penalty of the linear map, in mean variances of a feature."""

_LAYER = re.compile(r"^model\.layers\.(\d+)\.(.+)$")
_ADDS = ("self_attn.o_proj.", "mlp.down_proj.")
"""Projections through which a layer adds to its input."""


def grow_target(
    folder: Path, coarse: TinyCodec, fine: TinyCodec, layout: SpeechLayout, layers: int
) -> dict[str, Tensor]:
    """Return float32 tensors of a target with `layers` layers that speaks `fine`'s codes.

    `folder` holds a target that speaks `coarse`'s; raise ValueError if it does not, or is deeper.
    """
    before = SpeechLayout.from_folder(folder)
    if before.n_codes != coarse.n_codes or before.words != layout.words:
        raise ValueError(
            f"init={folder} speaks {before.n_codes} codes and {len(before.words)} words, the "
            f"corpus has {coarse.n_codes} and {len(layout.words)}; give a target trained on it"
        )
    config, tensors = read_checkpoint(folder)
    single = {name: tensor.float() for name, tensor in tensors.items()}
    books = [torch.from_numpy(book).double() for book in same_space(coarse, fine)]
    for name in (EMBEDDING, HEAD):
        codes, others = single[name][: coarse.n_codes], single[name][coarse.n_codes :]
        single[name] = torch.cat([refine(codes.double(), *books).float(), others])
    return deepen(single, int(config["num_hidden_layers"]), layers)


def same_space(
    coarse: TinyCodec, fine: TinyCodec
) -> tuple[Float32[np.ndarray, "coarse 108"], Float32[np.ndarray, "fine 108"]]:
    """Return both codebooks in the weighted space of the coarse one."""
    ratio = np.tile(coarse.weights / fine.weights, FRAMES_PER_TOKEN)
    return coarse.codebook, fine.codebook * ratio


def refine(
    rows: Float[Tensor, "coarse hidden"],
    coarse: Float[Tensor, "coarse features"],
    fine: Float[Tensor, "fine features"],
) -> Float[Tensor, "fine hidden"]:
    """Return rows for the entries of a finer codebook, from those of a coarser one."""
    centred = coarse - coarse.mean(0)
    gram = centred.T @ centred
    ridge = RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    slope = torch.linalg.solve(gram + ridge, centred.T @ (rows - rows.mean(0)))
    parent = torch.cdist(fine, coarse).argmin(1)
    refined: Tensor = rows[parent] + (fine - coarse[parent]) @ slope
    return refined


def deepen(tensors: Mapping[str, Tensor], layers: int, wanted: int) -> dict[str, Tensor]:
    """Spread the layers over `wanted` ones without changing the function: copies add nothing."""
    if wanted < layers:
        raise ValueError(f"layers {wanted} are fewer than the {layers} of init; give more")
    sources = [index * layers // wanted for index in range(wanted)]
    deeper = {name: tensor for name, tensor in tensors.items() if not _LAYER.match(name)}
    for name, tensor in tensors.items():
        if match := _LAYER.match(name):
            places = [index for index, source in enumerate(sources) if source == int(match[1])]
            for index in places:
                adds = index == places[0] or not match[2].startswith(_ADDS)
                copy = tensor.clone() if adds else torch.zeros_like(tensor)
                deeper[f"model.layers.{index}.{match[2]}"] = copy
    return deeper
