"""Time utterances in several processes: one keeps its luck with memory for all its utterances.

Each process is a new one, loads its own models, and decodes every utterance by the system and by
the target alone in turn. They follow each other; the memory's speed is measured in each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from speculative_tts.files import held
from speculative_tts.native.memory import bandwidth
from speculative_tts.provenance import hardware
from speculative_tts.records import Clock, ListItem, write_json
from speculative_tts.schema.decode import DecodeConfig
from speculative_tts.typed import read_json
from speculative_tts.workers import afresh

MEMORY = 512 << 20  # bytes that no processor's cache holds
QUIET = "memory.json"
Clocks = dict[str, Clock]  # by utterance


def elsewhere(config: DecodeConfig, items: Sequence[ListItem]) -> Iterator[Clocks]:
    """Yield clocks of the utterances from each of `config.processes` processes but this one."""
    alone = replace(config, processes=1, workers=1, instrument=0, chunk=None, timing=None)
    piece = alone, list(items)
    return afresh(_clocked, [piece] * (config.processes - 1))


def _clocked(piece: tuple[DecodeConfig, list[ListItem]]) -> Clocks:
    """Time utterances in this process, which was made for it."""
    from speculative_tts.runs.build import build_source
    from speculative_tts.runs.sources.engine import EngineSource

    config, items = piece
    source = build_source(config, {})
    assert isinstance(source, EngineSource), "nothing else is timed"
    source.start(items, items)
    return source.clocks(items)


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
