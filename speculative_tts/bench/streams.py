"""Serve several listeners at once by the target alone and by its recurrent drafter; tabulate.

Rows of one folder's commands add up to one table: a sweep's numbers of clients, several targets.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from speculative_tts.bench.asked import Asked, asked_of
from speculative_tts.bench.closed_loop import PERCENTILES, Load, measured
from speculative_tts.bench.systems import PROBED
from speculative_tts.bench.table import ONE_PROCESS
from speculative_tts.costs.lookahead import best, table
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.model_cache import ModelCache, process_cache
from speculative_tts.decoding.streaming import stream_codec
from speculative_tts.files import write_atomic
from speculative_tts.provenance import provenance
from speculative_tts.reporting.origin import made_by
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.schema.decode import System
from speculative_tts.schema.rules import ExactRule, RuleConfig, ToleranceRule
from speculative_tts.typed import read_json, write_json

ALONE = "target alone"
RULES = (ExactRule(), ToleranceRule(beta=0.2))
HEADS = {  # columns of percentiles, and their digits
    "token_ms": ("ms a token", 2),
    "first_audio_ms": ("first audio, ms", 0),
    "real_time_factor": ("real-time factor", 3),
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
        "from asking to the last piece, over the seconds of audio."
    ),
)


def run_streams(config: BenchConfig, out: Path) -> int:
    """Measure one number of clients, add it to the folder's rows, print and write the table."""
    assert config.streams is not None
    models = process_cache(config.runtime.device.value)
    base = Builder(config, models).engine(System.target)
    stream_codec(base)
    asked = asked_of(config, base)
    loads = measured(systems(config, models, base, asked), asked, config.streams)
    made = provenance(config)
    new = [row(config, name, load) | {"provenance": made} for name, load in loads.items()]
    place = out / "streams.json"
    kept = read_json(place)["rows"] if place.is_file() else []
    ours = {(one["target"], one["streams"]) for one in new}
    rows = [one for one in kept if (one["target"], one["streams"]) not in ours] + new
    rows.sort(key=lambda one: (one["target"], one["streams"]))
    write_json(place, {"rows": rows})
    write_atomic(out / "streams.md", markdown(rows))
    print(markdown(rows))
    print(f"written to {out / 'streams.md'} and {place}")
    return 0


def systems(
    config: BenchConfig, models: ModelCache, base: Engine, asked: Sequence[Asked]
) -> dict[str, tuple[Engine, System]]:
    """Return the target alone, and the recurrent layer verified by each of `RULES`, by name.

    With lookahead=auto each rule has the one that pays here for a single client.
    """
    if not Path(config.recurrent.path).is_dir():
        raise ValueError(
            "streams compares the target alone with its recurrent layer, and "
            f"{config.recurrent.path} is none; give recurrent.path=<folder>, which "
            "sst-train-heads recipe=recurrent makes"
        )
    found: dict[str, tuple[Engine, System]] = {ALONE: (base, System.target)}
    for rule in RULES:
        engine = _drafting(config, rule, models)
        if config.seeks_lookahead:
            lookahead = best(table(engine, [one.request for one in asked[:PROBED]])).lookahead
            engine = _drafting(dataclasses.replace(config, lookahead=lookahead), rule, models)
        assert engine.speculation is not None
        name = " ".join((*rule.label, "recurrent, lookahead", str(engine.speculation.lookahead)))
        found[name] = engine, System.speculative
    return found


def _drafting(config: BenchConfig, rule: RuleConfig, models: ModelCache) -> Engine:
    lookahead = 1 if config.seeks_lookahead else config.drafted
    drafting = dataclasses.replace(config, rule=rule, drafter=config.recurrent, lookahead=lookahead)
    return Builder(drafting, models).engine()


def row(config: BenchConfig, name: str, load: Load) -> dict[str, Any]:
    """Return a system's figures, and those of each utterance, as JSON values."""
    return {
        "target": config.target.name,
        "streams": config.streams,
        "system": name,
        "percentiles": list(PERCENTILES),
        **load.percentiles(),
        "tokens_per_second": load.tokens / load.seconds,
        "seed": config.seed,
        "utterances": [dataclasses.asdict(one) for one in load.served],
    }


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format all rows as one table, with how they were measured."""
    heads = [f"{title}, p{percentile}" for title, _ in HEADS.values() for percentile in PERCENTILES]
    columns = ["target", "streams", "system", *heads, "tokens/s of all"]
    lines = [f"| {' | '.join(columns)} |", "|---|---:|---|" + "---:|" * (len(columns) - 3)]
    for one in rows:
        figures = [f"{x:.{digits}f}" for key, (_, digits) in HEADS.items() for x in one[key]]
        cells = [one["target"], str(one["streams"]), one["system"], *figures]
        lines.append(f"| {' | '.join(cells)} | {one['tokens_per_second']:.0f} |")
    numbers = sorted({len(one["utterances"]) for one in rows})
    seeds = sorted({one["seed"] for one in rows})
    counted = f"{' or '.join(map(str, numbers))} utterances, seed {', '.join(map(str, seeds))}"
    lines += ["", f"Percentiles are over {counted}.", *HOW, ""]
    lines += dict.fromkeys(made_by(one["provenance"]) for one in rows)
    return "\n".join(["# Several listeners at once", "", ONE_PROCESS, "", *lines]) + "\n"
