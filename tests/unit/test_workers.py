"""Pieces of work on workers: each done once, and again where a worker was lost."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path

import pytest

from speculative_tts.cluster import workers
from speculative_tts.schema.common import ClusterConfig
from speculative_tts.workers import AHEAD, HERE, Processes, copies


def square(number: int) -> int:
    return number * number


def where(number: int) -> int:
    return os.getpid()


def refuse(number: int) -> int:
    if number == 3:
        raise ValueError("three is refused")
    return number


def die_once(piece: tuple[Path, int]) -> int:
    """The first process that takes the third piece is killed."""
    folder, number = piece
    if number == 3 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("processes", [1, 2])
def test_every_piece_has_its_result(processes: int) -> None:
    with workers(ClusterConfig(), processes) as many:
        assert sorted(many.each(square, range(9))) == [(n, n * n) for n in range(9)]
        assert list(many.each(square, ())) == []


def test_one_piece_is_done_here_and_several_elsewhere() -> None:
    many = Processes(2, retries=0)
    assert dict(many.each(where, [1])) == {1: os.getpid()}
    assert os.getpid() not in dict(many.each(where, range(4))).values()


@pytest.mark.parametrize("many", [HERE, Processes(2, retries=3)])
def test_what_a_piece_raises_is_raised(many: Processes) -> None:
    with pytest.raises(ValueError, match="three is refused"):
        list(many.each(refuse, range(20)))


def test_pieces_are_taken_as_they_are_needed() -> None:
    """A corpus of millions of utterances is not read ahead of its shards."""
    taken = []

    def pieces() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    stream = Processes(2, retries=0).each(square, pieces())
    next(stream)
    assert len(taken) <= 2 * AHEAD
    stream.close()


@pytest.mark.whole
def test_what_a_lost_process_had_is_done_again(tmp_path: Path) -> None:
    pieces = [(tmp_path, number) for number in range(12)]
    found = list(Processes(2, retries=1).each(die_once, pieces))
    assert sorted(result for _, result in found) == list(range(12))
    assert (tmp_path / "died").exists()


@pytest.mark.whole
def test_a_piece_that_kills_every_process_ends_in_one_line() -> None:
    with pytest.raises(ValueError, match="workers were lost 3 times") as caught:
        list(Processes(2, retries=2).each(die, range(4)))
    assert "\n" not in str(caught.value)


def counted(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Numbers and who yields them; above 9 that is refused, below 0 it is killed."""
    for number in numbers:
        if number > 9:
            raise ValueError(f"{number} is refused")
        if number < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield number, os.getpid()


def test_copies_have_what_this_process_has() -> None:
    loaded = object()

    def work(numbers: list[int]) -> Iterator[tuple[int, int, int]]:
        for number in numbers:
            yield number, id(loaded), os.getpid()

    found = list(copies(work, [[1, 3], [2, 4, 5]]))
    assert sorted(number for number, *_ in found) == [1, 2, 3, 4, 5]
    assert {address for _, address, _ in found} == {id(loaded)}
    processes = {process for *_, process in found}
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert list(copies(counted, [[7, 8]])) == [(7, os.getpid()), (8, os.getpid())]
    assert list(copies(counted, [])) == []


def test_what_a_copy_raises_is_raised_and_the_others_end() -> None:
    making = copies(counted, [[1, 12], [2] * 100_000])
    with pytest.raises(ValueError, match="12 is refused") as caught:
        list(making)
    assert "in counted" in "".join(caught.value.__notes__)
    assert not active_children()


def test_copies_end_with_who_asked_for_them() -> None:
    making = copies(counted, [[1] * 100_000, [2] * 100_000])
    next(making)
    assert len(active_children()) == 2
    making.close()
    assert not active_children()


@pytest.mark.whole
def test_a_copy_that_is_killed_ends_in_one_line() -> None:
    with pytest.raises(ValueError, match="a copy of the process was lost") as caught:
        list(copies(counted, [[1, 2], [3, -1]]))
    assert "\n" not in str(caught.value)


@pytest.mark.whole
def test_a_copy_that_is_killed_as_it_sends_ends_in_one_line() -> None:
    """A pipe holds 64 KiB: a copy waits in the middle of a result until the first part is read."""

    def work(seconds: float) -> Iterator[bytes]:
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))
        timer.start()
        while True:
            yield bytes(1 << 20)

    making = copies(work, [0.5, 0.5])
    next(making)
    time.sleep(1)
    with pytest.raises(ValueError, match="a copy of the process was lost"):
        list(making)
