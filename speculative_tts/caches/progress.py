"""Show the progress of long work: a bar per stage, each from 0 to 100 %."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from speculative_tts.progress import progress

Progress = Callable[[int], object]  # called with the amount of work done since the last call
Stage = Callable[[str, int], AbstractContextManager[Progress]]  # of a name and all its work


@contextmanager
def silent(_name: str, _work: int) -> Iterator[Progress]:
    """Show nothing."""
    yield lambda _: None


@contextmanager
def bar(name: str, work: int) -> Iterator[Progress]:
    """Show a bar on stderr with an estimate of the time."""
    with progress(total=work, desc=name, unit_scale=True) as shown:
        yield shown.update
