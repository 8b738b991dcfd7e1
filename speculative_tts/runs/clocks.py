"""Seconds of a run's utterances by process, and the speed of memory that they depend on."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from speculative_tts.decoding.engine import Spoken, Timed
from speculative_tts.files import held
from speculative_tts.native.memory import bandwidth
from speculative_tts.provenance import hardware
from speculative_tts.records import SECONDS, Clock
from speculative_tts.schema.decode import System
from speculative_tts.typed import read_json, write_json

MEMORY = 512 << 20  # bytes that no processor's cache holds
QUIET = "memory.json"
Clocks = dict[str, Clock]  # by utterance


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


def clock_of(
    decoded: Mapping[System, Timed], system: System, spoken: Spoken, memory: float | None
) -> Clock:
    """Return the seconds of a system, and of the target alone where it was decoded beside it."""
    own, beside = decoded[system], decoded.get(System.target)
    draft, verify, accept = own.outcomes[0].split or (None, None, None)
    clock = Clock(
        own.seconds,
        own.prefill_seconds,
        draft_seconds=draft,
        verify_seconds=verify,
        accept_seconds=accept,
        nar_seconds=spoken.nar_seconds,
        codec_seconds=spoken.codec_seconds,
        flow_seconds=spoken.flow_seconds,
        memory=memory,
    )
    if beside is None or beside is own:
        return clock
    seconds, prefill = beside.seconds, beside.prefill_seconds
    return replace(clock, baseline_seconds=seconds, baseline_prefill_seconds=prefill)


def means(clocks: list[Clock]) -> dict[str, float | None]:
    """Return the mean seconds over processes, of each kind; None where no process has them."""
    known = {
        name: [value for one in clocks if (value := getattr(one, name)) is not None]
        for name in SECONDS
    }
    return {name: sum(values) / len(values) if values else None for name, values in known.items()}
