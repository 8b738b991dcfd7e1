"""Choose the tile of a product: from the table, or measured on this machine's GPU.

Graphs of many launches are measured. As many copies of the weight as the L2 cache cannot hold are
read in turn, as in a decoder's step.
"""

import logging
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor

from speculative_tts.models.gpu import tiles
from speculative_tts.models.gpu.capture import recorded
from speculative_tts.models.gpu.tiles import (
    MOST_GEMV,
    GemvTile,
    HeldTile,
    Product,
    ProductShape,
    RowsTile,
    row_class,
)

Work = Callable[
    [Tensor, Tensor, ProductShape, Product], object
]  # multiplies inputs and weight by a tile
LEAST = 1 << 20  # bytes of a weight below which nothing is gained
COLD = 200 << 20  # bytes of copies, several times an L2 cache
REPLAYS = 5
HELD = 64 << 10  # bytes of weights that a block holds at most
logger = logging.getLogger(__name__)


def of_product(
    device: torch.device, shape: ProductShape, dtype: torch.dtype, rows: int, work: Work
) -> Product:
    """Return the tile of a product: from the table, or measured now, or by rule of thumb."""
    known = tiles.table(device).get(shape.key(dtype, rows))
    if known is not None:
        return tiles.product_of(known)
    if worth_it(device, shape, dtype):
        return measure(device, shape, dtype, row_class(rows), work)
    return tiles.product_default(shape, dtype, rows)


def worth_it(device: torch.device, shape: ProductShape, dtype: torch.dtype) -> bool:
    """Return whether a tile may and should be measured now."""
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return False
    return shape.bytes(dtype) >= LEAST


def measure(
    device: torch.device, shape: ProductShape, dtype: torch.dtype, rows: int, work: Work
) -> Product:
    """Return the fastest candidate that fits the device, and keep it in the table."""
    begin, fastest = time.perf_counter(), {}
    x = torch.ones(rows, shape.k, dtype=dtype, device=device)
    for tile in candidates(shape, dtype, rows):
        seconds = timed(x, shape, tile, work)
        if seconds is not None:
            fastest[tile] = seconds
    if not fastest:
        return tiles.product_default(shape, dtype, rows)
    best = min(fastest, key=lambda tile: fastest[tile])
    tiles.learn(device, {shape.key(dtype, rows): list(best)})
    logger.info(
        "measured %s in %.1f s: %s takes %.2f us",
        shape.key(dtype, rows), time.perf_counter() - begin, best, 1e6 * fastest[best],
    )  # fmt: skip
    return best


def candidates(shape: ProductShape, dtype: torch.dtype, rows: int) -> list[Product]:
    """Return tiles to try, the likeliest to win on an H100 among those of its size."""
    k, found = shape.k, [tiles.product_default(shape, dtype, rows)]
    if rows <= MOST_GEMV:
        if k <= 1024:
            found += [GemvTile(2, 1), GemvTile(2, 2), GemvTile(4, 4)]
        elif k <= 2048:
            found += [GemvTile(2, 2), GemvTile(4, 8), GemvTile(1, 2)]
        else:
            found += [GemvTile(1, 4), GemvTile(2, 4), GemvTile(4, 8)]
    if rows > 1 and dtype is torch.bfloat16:
        found += [RowsTile(16, 128, 1, 6), RowsTile(16, 128, 2, 6), RowsTile(64, 64, 4, 5)]
        found += [RowsTile(16, 256, 2, 3)] if k >= 2048 else []
        found += held(shape, dtype)
    return list(dict.fromkeys(found))


def held(shape: ProductShape, dtype: torch.dtype) -> list[Product]:
    """Return tiles whose block holds its weights, where a multiprocessor has room for several."""
    outputs = 16
    if outputs * shape.k * (1 + shape.gated) * dtype.itemsize > HELD:
        return []
    return [HeldTile(outputs, 64, 2), HeldTile(outputs, 32, 4)]


@torch.inference_mode()
def timed(x: Tensor, shape: ProductShape, tile: Product, work: Work) -> float | None:
    """Return seconds of a product, None where the device has too little of something for a tile."""
    from triton.runtime.errors import OutOfResources

    outputs = shape.n * (1 + shape.gated)
    copies = max(2, min(24, COLD // shape.bytes(x.dtype)))
    weights = x.new_zeros(copies, outputs, shape.k)

    def several() -> None:
        for weight in weights:
            work(x, weight, shape, tile)

    try:
        return replayed(several) / copies
    except OutOfResources:
        return None


def replayed(launches: Callable[[], None]) -> float:
    """Return the seconds of one replay of what a function launches, the median of some."""
    launches()
    torch.cuda.synchronize()
    graph, _ = recorded(launches)
    graph.replay()
    marks = [_mark() for _ in range(REPLAYS + 1)]
    marks[0].record()
    for mark in marks[1:]:
        graph.replay()
        mark.record()
    torch.cuda.synchronize()
    times: list[float] = [before.elapsed_time(after) for before, after in pairwise(marks)]
    return 1e-3 * median(times)


def _mark() -> Any:
    """Return a point in time on the device."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
