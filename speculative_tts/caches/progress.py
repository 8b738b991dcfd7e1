"""Progress of long work: a bar a stage, each from 0 to 100 %."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from speculative_tts.progress import progress

Progress = Callable[[int], object]  # told how much more of the stage's work is done
Stage = Callable[[str, int], AbstractContextManager[Progress]]  # its name, and all of its work


@contextmanager
def silent(_name: str, _work: int) -> Iterator[Progress]:
    """Nobody is told."""
    yield lambda _: None


@contextmanager
def bar(name: str, work: int) -> Iterator[Progress]:
    """A bar on stderr with an estimate of the time."""
    with progress(total=work, desc=name, unit_scale=True) as shown:
        yield shown.update
