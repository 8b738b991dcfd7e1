"""Compute what a GPU's memory, its arithmetic and the launches of kernels allow a step or round.

A step cannot be faster than one read of all its weights, than its multiplications and additions at
the device's peak, or than its kernels one after the other if none of them did anything.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.loops.graphs import EAGER, LoopSpec
from speculative_tts.models.gpu import triton_runtime
from speculative_tts.models.gpu.tuning import replayed
from speculative_tts_benchmarks.sizes import RECURRENT_WIDTH, ModelSize

# Dense multiplications and additions in bfloat16 with float32 sums, by matrix units, and in
# float32, both a clock and multiprocessor by compute capability: NVIDIA's architecture papers.
OPERATIONS = {
    (8, 0): (2048, 128),
    (8, 6): (1024, 256),
    (8, 9): (1024, 256),
    (9, 0): (4096, 256),
    (10, 0): (8192, 256),
    (12, 0): (1024, 256),
}
CONSUMER = "GeForce"  # has half of the former
LAUNCHES = 500  # kernels that do nothing, to time what lies between two
ALLOCATIONS = {"empty", "new_empty", "empty_like", "empty_strided"}  # operations without a kernel


LIMITS = {  # a limit's name: what of a row's step or round, and of the device, it is made of
    "memory": ("bytes_per_step", "bytes_per_second"),
    "arithmetic": ("operations_per_step", "operations_per_second"),
    "launches": ("kernels_per_step", "kernels_per_second"),
}


def shares(row: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, float | None]:
    """Return which share of each limit a row of the bench reaches; None where one is not known."""
    steps = row["rounds"] or row["tokens"] - row["batch"]  # the prefill gives each its first
    speed, found = steps / row["batch"] / row["step_seconds"], {}
    for name, (amount, most) in LIMITS.items():
        known = row.get(amount) is not None and limits.get(most)
        found[name] = speed * row[amount] / limits[most] if known else None
    return found


def described(limits: Mapping[str, Any]) -> list[str]:
    """Say how large each limit is, by lines of text."""
    read, computed, launched = (limits[most] for _, most in LIMITS.values())
    lines = [f"Memory reads {read / 1e9:.0f} GB/s, once all weights of a step or round."]
    if computed is None:
        lines += ["What this device computes at most is not known here."]
    else:
        lines += [f"Multiprocessors compute {computed / 1e12:.0f} TFLOPS at their highest clock."]
    if launched is not None:
        lines += [f"A graph runs {launched / 1e3:,.0f} kernels a millisecond that do nothing."]
    return lines


def peak(properties: Any, dtype: torch.dtype) -> float | None:
    """Return operations a second of `torch.cuda.get_device_properties` at its highest clock.

    None for a compute capability that is not known here, and where torch does not tell the clock.
    """
    known = OPERATIONS.get((properties.major, properties.minor))
    clock = getattr(properties, "clock_rate", None)  # kHz
    if known is None or not clock:
        return None
    matrix, plain = known
    halved = 2 if CONSUMER in properties.name else 1
    each = plain if dtype is torch.float32 else matrix / halved
    return float(properties.multi_processor_count * clock * 1e3 * each)


def work(
    size: ModelSize, batch: int, context: float, itemsize: int, drafted: int = 0, drafter: str = ""
) -> dict[str, float]:
    """Return bytes and operations of a step, or of a round that drafts so many tokens.

    context: positions that are attended to; drafter: "draft" or "recurrent". A second model is fed
    one token more than it drafts: the first time the two newest.
    """
    layers = size.config.layers
    read, row = weights(size, layers), (drafted + 1) * operations(size, layers, context)
    if drafter == "draft":
        read += drafted * weights(size, len(size.draft))
        row += (drafted + 1) * operations(size, len(size.draft), context)
    elif drafter:
        read += drafted * recurrent_weights(size)
        row += drafted * 2 * recurrent_weights(size)
    return {"bytes_per_step": itemsize * read, "operations_per_step": batch * row}


def weights(size: ModelSize, layers: int) -> float:
    """Return how many weights a pass reads: so many layers and the head."""
    c = size.config
    projections = 2 * c.hidden * c.head_dim * (c.heads + c.kv_heads)
    layer = projections + 3 * c.hidden * c.intermediate
    return layers * layer + size.speech * c.hidden


def recurrent_weights(size: ModelSize) -> float:
    """Return how many weights a recurrent layer of one block and the head have."""
    hidden = size.config.hidden
    return 3 * RECURRENT_WIDTH * hidden * hidden + size.speech * hidden


def operations(size: ModelSize, layers: int, context: float) -> float:
    """Return a position's: two a weight, and two products with the keys and values before it."""
    attention = 4 * layers * size.config.heads * size.config.head_dim * context
    return 2 * weights(size, layers) + attention


@torch.inference_mode()
def kernels_of(spec: LoopSpec[Any], requests: list[Request]) -> int:
    """Return how many kernels a step or round launches: ours, and torch's by its operations."""
    loop = next(EAGER.states(spec, requests))
    loop.step()  # what is made once is there then
    before = triton_runtime.launched()
    with TorchKernels() as others:
        loop.step()
    both: int = triton_runtime.launched() - before + sum(others.seen.values())
    return both


def kernels_per_second(device: torch.device) -> float | None:
    """Return how many kernels a CUDA graph runs one after the other if they do nothing."""
    if device.type != "cuda":
        return None
    one = torch.zeros(8, device=device)

    def several() -> None:
        for _ in range(LAUNCHES):
            one.add_(1)

    return LAUNCHES / replayed(several)


class TorchKernels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts torch's operations that are kernels: no views, no memory that is only asked for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: dict[str, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation, and count it if it makes a tensor or changes one."""
        result, name = func(*args, **(kwargs or {})), func.overloadpacket.__name__
        given = {place for arg in args for place in _memory(arg)}
        changes = name.endswith("_") or not _memory(result) <= given
        if changes and name not in ALLOCATIONS:
            self.seen[name] = self.seen.get(name, 0) + 1
        return result


def _memory(x: Any) -> set[int]:
    """Return where the numbers of a tensor, or of several, are."""
    if isinstance(x, torch.Tensor):
        return {x.untyped_storage()._cdata}
    parts = x if isinstance(x, list | tuple) else ()
    return {place for part in parts for place in _memory(part)}
