"""Cache of loaded models, bounded by size, that the runs of a sweep share."""

import functools
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

Loaded = TypeVar("Loaded")


class ModelCache:
    """Loaded objects by key; those unused longest go before more than `room` bytes are kept.

    What a run still uses stays in its hands; a thing larger than `room` is kept alone.
    """

    def __init__(self, room: float) -> None:
        self._room = room
        self._things: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable, size: int, load: Callable[[], Loaded]) -> Loaded:
        """Return the object of a key, loaded if it is not there; it takes about `size` bytes."""
        if key in self._things:
            self._things.move_to_end(key)
        else:
            while self._things and self.size + size > self._room:
                self._things.popitem(last=False)
            self._things[key] = load(), size
        thing: Loaded = self._things[key][0]
        return thing

    @property
    def size(self) -> int:
        """Return the bytes that are kept."""
        return sum(size for _, size in self._things.values())


class Keep(Protocol):
    """Cache of one process from run to run, by `key` and the content of `path`."""

    def __call__(
        self, key: tuple[Hashable, ...], path: str, load: Callable[[], Loaded], /
    ) -> Loaded:
        """Return the object, loaded if it is not there."""


def folder_size(path: Path) -> int:
    """Return the bytes of a file or folder: about what it takes when it is loaded."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sum(file.stat().st_size for file in files)


@functools.cache
def process_cache(device: str) -> ModelCache:
    """Return this process's cache of what is loaded on a device: up to half of its memory."""
    if device == "cuda" and torch.cuda.is_available():  # else `Builder` says that there is none
        return ModelCache(torch.cuda.mem_get_info()[1] / 2)
    return ModelCache(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2)
