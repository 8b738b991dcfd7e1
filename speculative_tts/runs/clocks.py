"""Seconds of a run's utterances by process, and the speed of memory that they depend on."""

from collections.abc import Callable, Iterator
from pathlib import Path

from speculative_tts.files import held
from speculative_tts.native.memory import bandwidth
from speculative_tts.provenance import hardware
from speculative_tts.records import Clock, ListItem
from speculative_tts.typed import read_json, write_json

MEMORY = 512 << 20  # bytes that no processor's cache holds
QUIET = "memory.json"
Clocks = dict[str, Clock]  # by utterance
# Times utterances in other processes; yields the clocks of each process.
Elsewhere = Callable[[list[ListItem]], Iterator[Clocks]]


def memory_speed() -> float | None:
    """Return GB/s that one core reads of main memory now; None without the compiled step."""
    found = bandwidth(MEMORY)
    return None if found is None else found / 1e9


def quiet_speed(folder: Path, speed: float | None) -> float | None:
    """Return the most GB/s that a core of this processor ever read here, this time included.

    It is kept in `folder`, which runs share.
    """
    if speed is None:
        return None
    with held(folder):
        file, cpu = folder / QUIET, str(hardware()["cpu"])
        known = read_json(file, "delete it") if file.is_file() else {}
        best = max(speed, float(known.get(cpu, 0.0)))
        write_json(file, known | {cpu: best})
    return best
