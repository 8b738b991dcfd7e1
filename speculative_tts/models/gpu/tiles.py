"""Table, by shape and device, of the share of a product or attention that one GPU program takes.

Tiles that were measured on a device ship as data beside this file. Others are measured when a shape
is first met (`tuning`) and kept in the user's cache folder; elsewhere `product_default` serves.
"""

import functools
import logging
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch

from speculative_tts.files import OutputError
from speculative_tts.typed import read_json, write_json

SHIPPED = Path(__file__).parent / "tiles"
FEW = 16  # rows whose products are ours; cuBLAS has those of more
MOST_GEMV = 4  # rows of a `GemvTile`
ROW_CLASSES = (1, 2, MOST_GEMV, FEW)  # a tile serves all numbers of rows up to the next of these
DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


class GemvTile(NamedTuple):
    """Some outputs a program, all of their weights in its registers."""

    outputs: int
    warps: int


class RowsTile(NamedTuple):
    """Tiles of outputs x inputs on matrix units, several of them under way.

    ahead: inputs whose weights the L2 cache is asked for before the kernel before has ended.
    """

    outputs: int
    inputs: int
    warps: int
    stages: int
    ahead: int = 1024


class HeldTile(NamedTuple):
    """Outputs of a block that holds all their weights, and inputs of a warp's share at a time."""

    outputs: int
    inputs: int
    warps: int

    def steps(self, k: int) -> int:
        """Return how many times the warps take their inputs until they have all k."""
        return -(-k // (self.inputs * self.warps))

    def even(self, k: int) -> bool:
        """Return whether the last time they take as many as before."""
        return self.steps(k) * self.inputs * self.warps == k


class AttentionTile(NamedTuple):
    """Parts of the old positions, and columns a pass."""

    splits: int
    columns: int
    warps: int


Product = GemvTile | RowsTile | HeldTile
logger = logging.getLogger(__name__)


class ProductShape(NamedTuple):
    """A product's outputs, inputs and whether it is SwiGLU's, with twice as many weight rows."""

    n: int
    k: int
    gated: bool

    def bytes(self, dtype: torch.dtype) -> int:
        """Return the weight's size."""
        return self.n * (1 + self.gated) * self.k * dtype.itemsize

    def key(self, dtype: torch.dtype, rows: int) -> str:
        """Name it in a table."""
        return f"product {DTYPES[dtype]} {self.n} {self.k} {int(self.gated)} {row_class(rows)}"


class AttentionHeads(NamedTuple):
    """A model's heads, which attention's tiles depend on."""

    heads: int
    kv_heads: int
    head_dim: int

    def key(self, dtype: torch.dtype, batch: int, new: int) -> str:
        """Name it in a table."""
        sizes = f"{self.heads} {self.kv_heads} {self.head_dim}"
        return f"attention {DTYPES[dtype]} {sizes} {batch} {'one' if new == 1 else 'several'}"


def row_class(rows: int) -> int:
    """Return which of ROW_CLASSES so many rows belong to."""
    return next(most for most in ROW_CLASSES if rows <= most)


def product_default(shape: ProductShape, dtype: torch.dtype, rows: int) -> Product:
    """Return a tile that fits any device, and is seldom the fastest."""
    if rows > 1 and (rows > MOST_GEMV or dtype is torch.bfloat16):
        most = 256 // dtype.itemsize  # so that four stages fit the shared memory of any device
        sizes = (size for size in (most, most // 2, most // 4) if shape.k % size == 0)
        return RowsTile(16, next(sizes, most), 2, 4)
    if shape.k >= 8192:
        return GemvTile(2, 8)
    return GemvTile(4, 8) if shape.k >= 2048 else GemvTile(4, 4)


def of_attention(
    device: torch.device, heads: AttentionHeads, dtype: torch.dtype, batch: int, new: int
) -> AttentionTile:
    """Return attention's tile, as measured or by rule of thumb."""
    known = table(device).get(heads.key(dtype, batch, new))
    if known is not None:
        return AttentionTile(*known)
    pairs = batch * heads.kv_heads
    splits = 8 if pairs <= 16 else 4 if pairs <= 32 else 2 if pairs <= 64 else 0
    columns = 64 if dtype is torch.bfloat16 else 32
    return AttentionTile(splits, columns, 4)


@functools.cache
def table(device: torch.device) -> dict[str, Any]:
    """Return what is known for a device: shipped, and measured here before; `learn` adds to it."""
    known: dict[str, Any] = {}
    if device.type == "cuda":
        known |= _stored(SHIPPED / f"{slug(device)}.json") | _stored(own_file(device))
    return known


def learn(device: torch.device, measured: dict[str, Any]) -> None:
    """Add measured tiles to the table and keep them for later processes, where that can be."""
    table(device).update(measured)
    file = own_file(device)
    try:
        write_json(file, {"tiles": _stored(file) | measured})
    except OutputError as error:
        logger.warning("tiles are measured again in the next process: %s", error)


def own_file(device: torch.device) -> Path:
    """Return where tiles measured on this machine's device are kept."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "speculative_tts" / "tiles" / f"{slug(device)}.json"


def _stored(file: Path) -> dict[str, Any]:
    """Return a file's tiles; none of one that is not there or was damaged: they are measured."""
    try:
        tiles: dict[str, Any] = read_json(file)["tiles"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return tiles


@functools.cache
def slug(device: torch.device) -> str:
    """Return a device's name as a file's."""
    name = torch.cuda.get_device_name(device).lower()
    return re.sub(r"[^a-z0-9]+", "_", name).strip("_")


def product_of(numbers: list[int]) -> Product:
    """Return a tile as it was before it became JSON: its kind has so many numbers."""
    kinds: dict[int, type[Product]] = {len(kind._fields): kind for kind in (GemvTile, HeldTile)}
    return kinds.get(len(numbers), RowsTile)(*numbers)
