"""Follow the launches of Triton's interpreter to find what it cannot see by itself.

Where a GPU allows programmatic dependent launch, a kernel may start before the kernel before it has
ended, and reads weights before it waits for it. The interpreter runs one kernel after the other, so
each address that is read before a wait is looked for among those that the kernel before may still
write. An operation of torch counts as one kernel. Memory that is only asked for holds garbage here,
and the programs of a kernel run last to first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from speculative_tts.models.decoder.matrix import Dense
from speculative_tts_benchmarks.gpu_limits import ALLOCATIONS

Span = tuple[int, int]  # addresses of bytes: the first, and the one after the last


class Order(TorchDispatchMode):
    """Note which kernels started early, and which of them read too early, after which writer."""

    def __init__(self) -> None:
        super().__init__()
        self.started: set[str] = set()
        self.early: set[tuple[str, str]] = set()
        self._open: list[tuple[str, list[Span]]] = []  # kernels that may still write, and where
        self._kernel = ""
        self._written: list[Span] = []
        self._waited: set[Any] = set()  # programs of this kernel
        self._opens = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation, and note what it writes."""
        result, name = func(*args, **(kwargs or {})), func.overloadpacket.__name__
        if self._kernel:  # the interpreter's own
            return result
        if name in ALLOCATIONS:
            return result.fill_(float("nan") if result.is_floating_point() else 1)
        given = {x.untyped_storage().data_ptr() for x in _tensors(args)}
        made = [x for x in _tensors(result)
                if name.endswith("_") or x.untyped_storage().data_ptr() not in given]  # fmt: skip
        if made:
            self._open = [(name, [_span(x) for x in made])]
        return result

    def begin(self, kernel: str, *, early: bool) -> None:
        """Begin a launch."""
        self._kernel, self._written, self._waited = kernel, [], set()
        self._early, self._opens = early, False
        self.started |= {kernel} if early else set()

    def end(self) -> None:
        """End a launch; after one that let the next start before its own wait more stays open."""
        own = self._kernel, self._written
        self._open = [*self._open, own] if self._opens else [own]
        self._kernel = ""

    def wait(self, program: Any) -> None:
        """Wait for the kernel before this one."""
        self._waited.add(program)

    def let_start(self, program: Any) -> None:
        """Let the next kernel start."""
        self._opens |= program not in self._waited

    def load(self, program: Any, places: Any, mask: Any) -> None:
        """Compare what a program reads with what may still be written."""
        if not self._early or program in self._waited:
            return
        read = _chosen(places, mask)
        for writer, spans in self._open:
            if any(((read >= low) & (read < high)).any() for low, high in spans):
                self.early.add((self._kernel, writer))

    def store(self, places: Any, mask: Any, size: int) -> None:
        """Note what a program writes."""
        written = np.unique(_chosen(places, mask))
        if written.size:
            runs = np.split(written, np.flatnonzero(np.diff(written) > size) + 1)
            self._written += [(int(run[0]), int(run[-1]) + size) for run in runs]


def _chosen(places: Any, mask: Any) -> Any:
    """Return the addresses that a mask lets through."""
    return places[np.broadcast_to(mask, places.shape)].astype(np.int64)


def _tensors(x: Any) -> Iterator[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        yield x
    for part in x if isinstance(x, list | tuple) else ():
        yield from _tensors(part)


def _span(x: torch.Tensor) -> Span:
    """Return where a tensor lies, what is between its numbers too."""
    reach = sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True)) + 1
    return x.data_ptr(), x.data_ptr() + reach * x.itemsize * (x.numel() > 0)


@contextmanager
def followed() -> Iterator[Order]:
    """Follow launches of the interpreter, with kernels that start early as on a GPU."""
    from triton.runtime import interpreter

    from speculative_tts.models.gpu import attention, norms, products
    from speculative_tts.models.gpu.kernels import attention as attending
    from speculative_tts.models.gpu.kernels import norm, product

    order, builder = Order(), interpreter.interpreter_builder
    run, grid = interpreter.GridExecutor.__call__, builder.set_grid_idx
    load, store = builder.create_masked_load, builder.create_masked_store
    add = builder.create_atomic_rmw

    def launched(self: Any, *args: Any, **kwargs: Any) -> None:
        order.begin(self.fn.__name__, early="launch_pdl" in kwargs)
        run(self, *args, **kwargs)
        order.end()

    def loaded(ptrs: Any, mask: Any, *rest: Any) -> Any:
        order.load(builder.grid_idx, ptrs.data, mask.data)
        return load(ptrs, mask, *rest)

    def stored(ptrs: Any, value: Any, mask: Any, *rest: Any) -> None:
        order.store(ptrs.data, mask.data, value.data.itemsize)
        store(ptrs, value, mask, *rest)

    def added(kind: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        order.store(ptrs.data, mask.data, value.data.itemsize)
        return add(kind, ptrs, value, mask, *rest)

    def reversed_(*place: int) -> None:
        grid(*(n - 1 - i for n, i in zip(builder.grid_dim, place, strict=True)))

    with pytest.MonkeyPatch.context() as patch, order:
        patch.setattr(interpreter.GridExecutor, "__call__", launched)
        patch.setattr(builder, "set_grid_idx", reversed_)
        patch.setattr(builder, "create_masked_load", loaded)
        patch.setattr(builder, "create_masked_store", stored)
        patch.setattr(builder, "create_atomic_rmw", added)
        patch.setattr(product, "_asked_for", lambda *_: None)  # into the cache, no register
        for launcher in (attention, norms, products):
            patch.setattr(launcher, "launches_early", lambda _: True)
        for kernels in (attending, norm, product):
            patch.setattr(kernels, "gdc_wait", lambda: order.wait(builder.grid_idx))
            patch.setattr(
                kernels, "gdc_launch_dependents", lambda: order.let_start(builder.grid_idx)
            )
        yield order


def laid_out(x: Any) -> None:
    """Lay out all weights of an object as a GPU has them from the beginning."""
    if isinstance(x, Dense):
        x.by_output()
    elif isinstance(x, list | tuple | dict):
        for part in x.values() if isinstance(x, dict) else x:
            laid_out(part)
    elif type(x).__module__.startswith("speculative_tts") and hasattr(x, "__dict__"):
        laid_out(vars(x))
