"""Measures the engine's speed beside transformers' on the same weights, and what each step costs.

All systems continue the same prompts in turn, in each of `processes`: the target alone,
speculation at the lookahead asked for and at the one that pays best here, heads, transformers.
Writes a table and JSON.
With streams=1,4,16: what so many clients at once wait for, of the target alone and its drafter.
With random=cosyvoice2: a target of real size with random weights.
"""

import sys
from pathlib import Path

from speculative_tts.commands import app, choices
from speculative_tts.files import write_atomic
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.typed import write_json


def run(config: BenchConfig) -> int:
    """Time continuations and steps; print the table and write it with its numbers."""
    from speculative_tts.costs.lookahead import written_out

    out, config = app.require_writable(folder_of(config)), written_out(config)
    if config.seeks_lookahead and (config.gpu or config.random is not None):
        raise ValueError(
            "lookahead=auto follows from what a draft gets right, and random weights have no such "
            "draft; give lookahead=<number>"
        )
    if config.streams is not None and (config.gpu or config.random is not None):
        raise ValueError(
            f"streams={config.streams} serves texts to listeners, and random weights speak none; "
            "leave gpu and random out"
        )
    if config.processes > 1 and config.gpu:
        raise ValueError(
            f"processes={config.processes} time in turn on a CPU; leave it out with gpu=true, "
            "which is of one process"
        )
    if config.gpu:
        from speculative_tts_benchmarks.gpu import run_gpu

        return run_gpu(config, out)
    if config.random is not None:
        from speculative_tts_benchmarks.random import run_random

        return run_random(config, out)
    if config.streams is not None:
        from speculative_tts.bench.streams import run_streams

        return run_streams(config, out)
    return _run_checkpoints(config, out)


def folder_of(config: BenchConfig) -> str:
    """Return `out`, or in a sweep a folder for each of its points: bench-1, bench-2.

    Listeners' points are rows of one page, which keeps those of earlier runs.
    """
    job = app.job_number()
    if job is None or config.streams is not None:
        return config.out
    return f"{config.out}-{job + 1}"


def _run_checkpoints(config: BenchConfig, out: Path) -> int:
    from speculative_tts.bench.checkpoints import Checkpoints, timed
    from speculative_tts.bench.engine import joined
    from speculative_tts.bench.systems import heads_missing, weights
    from speculative_tts.bench.table import ratios, table
    from speculative_tts.provenance import plain, provenance

    here = Checkpoints(config)
    found = timed(here)
    spent = joined([one.whole for one in found])
    seconds = {name: [one.seconds for one in own] for name, own in spent.items()}
    cores = {name: [one.cores for one in own] for name, own in spent.items()}
    exact = [name for name in found[0].parts.lookaheads if "exact" in name]
    result = {
        "continuations": {name: ratios(config, seconds, cores[name], name) for name in seconds},
        "processes": config.processes,
        "drafters": {name: weights(here.engine, here.engines[name]) for name in exact},
        "seconds": seconds,
        "core_seconds": cores,
        "context": here.context,
        "parts": [plain(one.parts) for one in found],
        "bytes_per_step": here.read,
        "left_out": heads_missing(config),
        "tokens": config.tokens,
        "threads": config.runtime.threads,
        "provenance": provenance(config),
    }
    place = out / config.target.name
    write_json(Path(f"{place}.json"), result)
    write_atomic(Path(f"{place}.md"), table(result))
    print(table(result))
    print(f"written to {place}.md and {place}.json")
    return 0


main = app.command(
    "bench",
    BenchConfig,
    run,
    examples=(
        "sst-bench",
        "sst-bench lookahead=5 tokens=200 out=bench",
        "sst-bench target=tiny_valle processes=5",
        "sst-bench target=tiny_fine streams=1,4 lookahead=5 limit=24 processes=5",
        "sst-bench random=cosyvoice2 runtime.dtype=bfloat16 limit=3 tokens=50 runtime.threads=2",
        "sst-bench gpu=true tokens=200",
    ),
    first=(
        *("target", "draft", "random", "limit", "tokens", "streams"),
        *("lookahead", "runtime", "gpu", "out"),
    ),
    implied=(
        *(*choices.CODEC_OF_TARGET, *choices.DATA_OF_TARGET),
        *(*choices.DRAFT_OF_TARGET, *choices.WITHOUT_DRAFT),
    ),
)

if __name__ == "__main__":
    sys.exit(main())
