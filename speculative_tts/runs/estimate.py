"""Estimate what runs would take without making them: utterances, tokens, hours, disk.

From a probe of a few utterances, decoded as the run would decode them with workers=1. What is done
already, runs and prompts, is not counted, nor are the runs of a search for a speed (match=).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from speculative_tts.records import ListItem, spread
from speculative_tts.runs.run import AudioSource, finished
from speculative_tts.runs.sources.engine import EngineSource

PROBED, ALONE = 6, 2  # utterances decoded together, and one by one
DEVICES = (2, 4, 8)
GIB = 2**30
SAMPLE, TOKEN = 2, 6  # bytes, of audio and in a record
Found = TypeVar("Found")


@dataclass(frozen=True)
class Plan:
    """Estimate of the work left in some runs."""

    runs: int = 0
    utterances: int = 0
    timed: int = 0
    tokens: float = 0.0
    bytes: float = 0.0
    hours: dict[str, float] = field(default_factory=dict)  # by stage
    longest: float = 0.0  # hours of one run, which no number of devices shortens

    def __add__(self, other: "Plan") -> "Plan":
        stages = dict.fromkeys((*self.hours, *other.hours))
        return Plan(
            self.runs + other.runs,
            self.utterances + other.utterances,
            self.timed + other.timed,
            self.tokens + other.tokens,
            self.bytes + other.bytes,
            {name: self.hours.get(name, 0) + other.hours.get(name, 0) for name in stages},
            max(self.longest, other.longest),
        )

    def __str__(self) -> str:
        whole = sum(self.hours.values())
        stages = ", ".join(f"{name} {_time(each)}" for name, each in self.hours.items())
        more = ", ".join(f"{n}: {_time(max(whole / n, self.longest))}" for n in DEVICES)
        return (
            f"{self.utterances} utterances ({self.timed} timed), {self.tokens:,.0f} tokens, "
            f"{self.bytes / GIB:.2g} GiB of disk, {_time(whole)} ({stages or 'all done'})"
            + (f"; on several devices {more}" if self.runs > 1 else "")
        )


def plan(source: AudioSource, folder: Path, items: list[ListItem]) -> Plan:
    """Estimate the work left in one run. ValueError for a fault of its list."""
    done = finished(folder)
    missing = [item for item in items if item.id not in done]
    if not missing:
        return Plan(runs=1)
    some = spread(missing, PROBED)
    found = (
        _decoded(source, items, some) if isinstance(source, EngineSource) else _made(source, some)
    )
    timed = (
        sum(source.is_timed(item) for item in missing) if isinstance(source, EngineSource) else 0
    )
    numbers = {
        "voices": len({item.prompt_audio for item in missing}),
        "timed": timed,
        "together": len(missing) - timed,
        "audio": len(missing),
    }
    hours = {name: numbers[name] * each / 3600 for name, each in found.hours.items()}
    return replace(
        found,
        utterances=len(missing),
        timed=timed,
        tokens=found.tokens * len(missing),
        bytes=found.bytes * len(missing),
        hours=hours,
        longest=sum(hours.values()),
    )


def _decoded(source: EngineSource, items: list[ListItem], some: list[ListItem]) -> Plan:
    """Estimate one utterance from a probe; `hours` holds seconds here."""
    voices, _ = _clocked(lambda: source.follow(some))
    source.start(items, some)
    some = [item for item in some if item.id not in source.failed]
    if not some:
        return Plan(runs=1)
    together, outcomes = _clocked(lambda: source.together(some))
    alone, _ = _clocked(lambda: [source.alone(item) for item in some[:ALONE]])
    audio, spoken = _clocked(lambda: [source.spoken(*one) for one in outcomes[:ALONE]])
    tokens = sum(len(outcome.tokens) for _, outcome in outcomes) / len(some)
    samples = sum(len(one.wave) for one in spoken) / len(spoken)
    seconds = {
        "voices": voices / len({item.prompt_audio for item in some}),
        "timed": alone / len(some[:ALONE]),
        "together": together / len(some),
        "audio": audio / len(spoken),
    }
    return Plan(runs=1, tokens=tokens, bytes=samples * SAMPLE + tokens * TOKEN, hours=seconds)


def _made(source: AudioSource, some: list[ListItem]) -> Plan:
    """Estimate one utterance of a source that decodes nothing."""
    source.start(some, some)
    seconds, made = _clocked(lambda: list(source.make(some)))
    samples = sum(len(wave) for _, wave in made) / len(made)
    return Plan(runs=1, bytes=samples * SAMPLE, hours={"audio": seconds / len(made)})


def _clocked(work: Callable[[], Found]) -> tuple[float, Found]:
    begin = time.perf_counter()
    found = work()
    return time.perf_counter() - begin, found


def _time(hours: float) -> str:
    return f"{hours:,.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"
