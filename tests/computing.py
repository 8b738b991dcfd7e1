"""Choose the kernels that models compute with, for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from speculative_tts.native import library
from speculative_tts.schema.decode import Kernels


@contextmanager
def computing(kernels: Kernels) -> Iterator[None]:
    """Let models that are made or run within compute with these kernels."""
    before = library.chosen()
    library.select(kernels)
    try:
        yield
    finally:
        library.select(before)
