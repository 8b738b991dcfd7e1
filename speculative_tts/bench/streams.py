"""Serve several listeners at once by the target alone and by its recurrent drafter; tabulate.

Each of `processes` loads its own models and serves all utterances by every system in turn; they
follow each other. Rows of one folder's commands add up to one table: a sweep's numbers of clients,
several targets.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from speculative_tts.bench.asked import asked_of
from speculative_tts.bench.closed_loop import Served, measured
from speculative_tts.bench.figures import ONE_PROCESS, RATIO
from speculative_tts.bench.systems import PROBED, layer_of
from speculative_tts.costs.lookahead import best, table
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.model_cache import process_cache
from speculative_tts.decoding.streaming import stream_codec
from speculative_tts.evaluation.metric import Metric
from speculative_tts.evaluation.processes import (
    PERCENTILE,
    PERCENTILE_NEEDS,
    Cells,
    interval,
    percentile,
)
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.statistics import Array, Measure
from speculative_tts.files import write_atomic
from speculative_tts.provenance import provenance
from speculative_tts.reporting.origin import made_by
from speculative_tts.runs.clocks import memory_speed
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.schema.decode import System
from speculative_tts.schema.drafters import LMDrafterConfig, RecurrentDrafterConfig
from speculative_tts.schema.rules import ExactRule, RuleConfig, ToleranceRule
from speculative_tts.texts import with_interval
from speculative_tts.typed import read_json, write_json
from speculative_tts.workers import afresh

ALONE = "target alone"
SPEEDUP = METRICS["speedup"]  # of tokens a second over a baseline's
RULES = (ExactRule(), ToleranceRule(beta=0.2))
Utterance = Mapping[str, Any]  # the fields of `Served`, its tokens counted
Columns = Callable[[Utterance], tuple[float, float]]
Process = tuple[dict[str, list[Served]], float | None]  # by system; GB/s that its core read
# Digits of a figure, and the two columns whose ratio of sums is its mean, by heading.
WAITS: dict[str, tuple[int, Columns]] = {
    "ms a token": (2, lambda one: (1000 * one["token_seconds"], max(1, one["tokens"] - 1))),
    "first audio, ms": (0, lambda one: (1000 * one["first_audio"], 1)),
    "real-time factor": (3, lambda one: (one["seconds"], one["audio_seconds"])),
}
HOW = (
    (
        "A closed loop: each client asks for its next utterance as soon as all audio of the one "
        "before is there. One process decodes the rows of all clients together, refills a row "
        "when it ends, and decodes pieces of audio between two steps."
    ),
    (
        "ms a token: from the first token to the last, over the tokens after the first. First "
        "audio: from asking to the first piece, prefill and codec included. Real-time factor: "
        "from asking to the last piece, over the seconds of audio. Tokens/s of all: clients times "
        "tokens over the seconds from asking to the last piece, during which no client is idle; "
        "the last column compares them with those of the target alone for the same utterances."
    ),
)


def run_streams(config: BenchConfig, out: Path) -> int:
    """Measure one number of clients, add it to the folder's rows, print and write the table."""
    place = out / "streams.json"
    kept = _kept(place, config.processes)
    piece = config, _lookaheads(config)
    found = [_served(piece), *afresh(_served, [piece] * (config.processes - 1))]
    new = [row(config, name, found) | {"provenance": provenance(config)} for name in found[0][0]]
    ours = {(one["target"], one["streams"]) for one in new}
    rows = [one for one in kept if (one["target"], one["streams"]) not in ours] + new
    rows.sort(key=lambda one: (one["target"], one["streams"]))
    write_json(place, {"rows": rows})
    write_atomic(out / "streams.md", markdown(rows))
    print(markdown(rows))
    print(f"written to {out / 'streams.md'} and {place}")
    return 0


def _kept(place: Path, processes: int) -> list[dict[str, Any]]:
    """Return the rows that are there; raise ValueError where they are of other processes."""
    rows = read_json(place)["rows"] if place.is_file() else []
    if others := {len(one.get("processes", ())) for one in rows} - {processes}:
        raise ValueError(
            f"{place} has rows of {min(others)} processes, and processes={processes}; give another "
            "out=<folder>, or delete the file"
        )
    return rows


def _lookaheads(config: BenchConfig) -> list[int]:
    """Return each rule's lookahead; with lookahead=auto, the best here for a single client."""
    base = _alone(config)
    if not isinstance(config.drafter, LMDrafterConfig | RecurrentDrafterConfig):
        raise ValueError(
            f"streams={config.streams} compares the target alone with its recurrent layer, and "
            f"drafter is {config.drafter.name}; leave drafter out"
        )
    if not Path(layer_of(config).path).is_dir():
        raise ValueError(
            "streams compares the target alone with its recurrent layer, and "
            f"{layer_of(config).path} is none; give recurrent.path=<folder>, which "
            "sst-train-heads recipe=recurrent makes"
        )
    if not config.seeks_lookahead:
        return [int(config.lookahead)] * len(_rules(config))
    requests = [one.request for one in asked_of(config, base)[:PROBED]]
    engines = [_drafting(config, rule, 1) for rule in _rules(config)]
    return [best(table(engine, requests)).lookahead for engine in engines]


def _rules(config: BenchConfig) -> list[RuleConfig]:
    """Return the rules that everybody is served by, and the asked one."""
    return [*RULES, *([] if config.rule in RULES else [config.rule])]


def _served(piece: tuple[BenchConfig, Sequence[int]]) -> Process:
    """Serve all clients by every system in this process."""
    config, lookaheads = piece
    assert config.streams is not None
    memory = memory_speed()
    base = _alone(config)
    systems = {ALONE: (base, System.target)}
    for rule, lookahead in zip(_rules(config), lookaheads, strict=True):
        name = " ".join((*rule.label, *layer_of(config).label)) + f", lookahead {lookahead}"
        systems[name] = _drafting(config, rule, lookahead), System.speculative
    return measured(systems, asked_of(config, base), config.streams), memory


def _alone(config: BenchConfig) -> Engine:
    """Return the target alone; raise ValueError for one whose codec cannot stream."""
    base = Builder(config, process_cache(config.runtime.device.value)).engine(System.target)
    stream_codec(base)
    return base


def _drafting(config: BenchConfig, rule: RuleConfig, lookahead: int) -> Engine:
    drafting = dataclasses.replace(config, rule=rule, drafter=layer_of(config), lookahead=lookahead)
    return Builder(drafting, process_cache(config.runtime.device.value)).engine()


def row(config: BenchConfig, name: str, found: Sequence[Process]) -> dict[str, Any]:
    """Return what every process measured of a system, utterance by utterance, as JSON values."""

    def counted(one: Served) -> dict[str, Any]:
        return dataclasses.asdict(one) | {"tokens": len(one.tokens)}

    return {
        "target": config.target.name,
        "streams": config.streams,
        "system": name,
        "seed": config.seed,
        "memory": [memory for _, memory in found],
        "processes": [list(map(counted, served[name])) for served, _ in found],
    }


def figures(row: Mapping[str, Any], alone: Mapping[str, Any], *, late: bool) -> list[str]:
    """Format a row's waiting times, their percentiles if `late`, and its speeds."""
    own, base, cells = _utterances(row), _utterances(alone), list[str]()
    for digits, columns in WAITS.values():
        cells.append(_text(_over_processes(row, list(map(columns, own)), RATIO), digits))
        cells += [_text(percentile(_waits(row, columns)), digits)] if late else []
    spoken = [(row["streams"] * one["tokens"], one["seconds"]) for one in own]
    beside = [(alone["streams"] * one["tokens"], one["seconds"]) for one in base]
    pairs = [(*one, *other) for one, other in zip(spoken, beside, strict=True)]
    cells.append(_text(_over_processes(row, spoken, RATIO), 0))
    return [*cells, "-" if row is alone else _text(_over_processes(row, pairs, SPEEDUP), 2)]


def _waits(row: Mapping[str, Any], columns: Columns) -> Array:
    """Return a waiting time of each process and utterance, shape [processes, utterances]."""
    ordered = [sorted(process, key=lambda one: one["id"]) for process in row["processes"]]
    pairs: Array = np.array([list(map(columns, process)) for process in ordered])
    return pairs[..., 0] / pairs[..., 1]


def _utterances(row: Mapping[str, Any]) -> list[Utterance]:
    return [one for process in row["processes"] for one in process]


def _over_processes(
    row: Mapping[str, Any], columns: Sequence[tuple[float, ...]], metric: Metric
) -> Measure:
    places = [(n, one["id"]) for n, process in enumerate(row["processes"]) for one in process]
    processes, utterances = zip(*places, strict=True)
    return interval(Cells(processes, utterances, np.array(columns)), metric)


def _text(measure: Measure, digits: int) -> str:
    return with_interval((measure.value, measure.low, measure.high), f".{digits}f")


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format all rows as one table, with how they were measured."""
    numbers = sorted({len(one["processes"][0]) for one in rows})
    late = numbers[0] >= PERCENTILE_NEEDS
    heads = [name for title in WAITS for name in (title, *([f"p{PERCENTILE}"] if late else []))]
    columns = ["target", "streams", "system", *heads, "tokens/s of all", f"x {ALONE}"]
    lines = [f"| {' | '.join(columns)} |", "|---|---:|---|" + "---:|" * (len(columns) - 3)]
    bases = {(one["target"], one["streams"]): one for one in rows if one["system"] == ALONE}
    for one in rows:
        cells = figures(one, bases[one["target"], one["streams"]], late=late)
        lines.append(
            f"| {one['target']} | {one['streams']} | {one['system']} | {' | '.join(cells)} |"
        )
    seeds = sorted({one["seed"] for one in rows})
    counted = f"{' or '.join(map(str, numbers))} utterances, seed {', '.join(map(str, seeds))}"
    lines += ["", f"All are over {counted}.", _percentiles(numbers[0]), *HOW]
    if speeds := [speed for one in rows for speed in one["memory"] if speed]:
        lines.append(f"A core read {min(speeds):.0f} to {max(speeds):.0f} GB/s of main memory.")
    lines += ["", *dict.fromkeys(made_by(one["provenance"]) for one in rows)]
    said = _timed_in(len(rows[0]["processes"]))
    return "\n".join(["# Several listeners at once", "", said, "", *lines]) + "\n"


def _percentiles(utterances: int) -> str:
    """Say what the percentiles are, or why there are none of so few utterances."""
    if utterances >= PERCENTILE_NEEDS:
        return f"p{PERCENTILE}: the {PERCENTILE}th percentile of a process, the mean of all."
    share = PERCENTILE / 100
    missed = " and ".join(
        f"{100 * share**number:.0f} % with {number}" for number in (utterances, PERCENTILE_NEEDS)
    )
    return (
        f"There are no {PERCENTILE}th percentiles, which take {PERCENTILE_NEEDS} utterances "
        f"(limit={PERCENTILE_NEEDS}): with n of them the longest wait is below the true percentile "
        f"with probability {share:.2f}^n, {missed}."
    )


def _timed_in(processes: int) -> str:
    if processes == 1:
        return ONE_PROCESS
    return (
        f"Timed in {processes} processes, one after the other, systems in turn in each: brackets "
        "are 95 % intervals over processes and utterances."
    )
