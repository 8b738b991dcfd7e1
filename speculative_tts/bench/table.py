"""Format the tables of sst-bench: continuations, lookaheads, steps, memory limits."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from speculative_tts.bench.engine import OURS, block_step, verify_step
from speculative_tts.bench.huggingface import GENERATE
from speculative_tts.evaluation.processes import Cells, interval, over_processes
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.statistics import LEAST, Array, Measure, bootstrap
from speculative_tts.reporting.origin import made_by
from speculative_tts.schema.bench import BenchConfig

RATIO = METRICS["tokens_per_second"]  # a ratio of sums
ONE_PROCESS = "Timed in one process: another may differ by more than any interval here."
COLUMNS = (
    "Of a core: core milliseconds a token. Steps are the target's own; a drafted token costs a "
    "round less its verification (below 0: noise). Passes at a place: if those before it did. Were "
    "all to pass: the bound of any draft of that cost. The limit is what reading the weights from "
    "memory allows; behind the prompt leaves the prompt out."
)
POSITIONS = 3  # drafted positions that the drafters' table shows
PATH_SEARCH = ((1024, 2048, 65_536), 8, 25)  # MTP's: vocabularies, tokens a pass, candidates a head
# PCG's target: tokens, mean group size, positions verified at once; threads
GROUP_RULE = (65_536, 140, 4, 2)


def ratios(config: BenchConfig, seconds: dict[str, list[float]], name: str) -> dict[str, Any]:
    """Return tokens per second, and speed ratios to both baselines with intervals."""
    own = seconds[name]
    row: dict[str, Any] = {
        "tokens_per_second": config.tokens * len(own) / sum(own),
        "ms_per_token": 1000 * sum(own) / config.tokens / len(own),
    }
    for key, base in (("vs_autoregressive", OURS), ("vs_generate", GENERATE)):
        if base in seconds:
            found = _ratio(config, np.array([seconds[base], own]).T)
            row[key] = [found.value, found.low, found.high]
    return row


def _ratio(config: BenchConfig, pairs: Array) -> Measure:
    """Return a ratio of seconds, its interval over what `timed_in` says."""
    if config.processes == 1:
        return bootstrap(pairs, draws=config.draws, seed=config.seed)
    prompts = len(pairs) // config.processes
    process, prompt = np.divmod(np.arange(len(pairs)), prompts)
    cells = Cells(process.tolist(), prompt.tolist(), pairs)
    return over_processes(cells, RATIO) if prompts < LEAST else interval(cells, RATIO)


def grid(head: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a Markdown table."""
    first, *others = (f"| {' | '.join(map(str, row))} |" for row in (head, *rows))
    return [first, "|" + "---|" * len(head), *others]


def table(result: dict[str, Any]) -> str:
    """Format the result as Markdown tables."""
    tokens, size, positions, threads = GROUP_RULE
    rule = f"group rule, {tokens} tokens, groups of {size}, {positions} positions"
    costs = {f"{rule}, {name}, {threads} threads": v for name, v in result["group_rule"].items()}
    whole = block_step(PATH_SEARCH[1])
    searched = [
        (name, f"{1000 * value:.3f}", f"{value / result['steps'][whole]:.1%}")
        for name, value in result["path_search"].items()
    ]
    processes = result.get("processes", 1)
    prompts = len(next(iter(result["seconds"].values()))) // processes
    amount = f"{prompts} prompts, {result['tokens']} tokens each"
    lines = [timed_in(processes, prompts), "", *system_lines(result)]
    lines += [*_drafters(result), *_pays(result), ""]
    lines += [
        *step_lines(result),
        *(f"| {name} | {1000 * v:.3f} | - |" for name, v in costs.items()),
    ]
    lines += ["", *grid(("path search", "median ms", f"of the {whole}"), searched)]
    lines += ["", *memory_lines(result), "", f"{amount}, batch 1, {result['threads']} thread(s)."]
    lines += [COLUMNS]
    if "draft" not in result["bytes_per_step"]:
        lines += [
            "The target has no draft: a draft's rounds and steps and transformers are left out."
        ]
    return "\n".join([*lines, "", made_by(result["provenance"])]) + "\n"


def timed_in(processes: int, prompts: int) -> str:
    """Say in how many processes continuations were timed, and what their intervals are over."""
    if processes == 1:
        return ONE_PROCESS
    units = "processes, of these few prompts" if prompts < LEAST else "processes and prompts"
    return (
        f"Continuations were timed in {processes} processes, one after the other: intervals are "
        f"over {units}. Steps, lookaheads and memory are of the first process: lookaheads, by core "
        "seconds of rounds alone, measure no speedup."
    )


def system_lines(result: dict[str, Any]) -> list[str]:
    """Tabulate whole continuations."""
    head = ("system", "tokens/s", "ms/token", "of a core")
    rows = []
    for name, row in result["continuations"].items():
        speed, cores = row["tokens_per_second"], median(result["core_seconds"][name])
        cells = [f"{speed:.{digits(speed)}f}", f"{row['ms_per_token']:.2f}"]
        cells += [f"{1000 * cores / int(result['tokens']):.2f}"]  # prefill included
        cells += [_interval(row.get(key)) for key in ("vs_autoregressive", "vs_generate")]
        rows.append((name, *cells))
    return grid((*head, "x autoregressive (95 % CI)", "x generate (95 % CI)"), rows)


def digits(speed: float) -> int:
    """Return the number of decimals to show of a speed in tokens per second."""
    return 0 if speed >= 100 else 1


def step_lines(result: dict[str, Any]) -> list[str]:
    """Tabulate single steps and the share of the memory limit that they reach."""
    head = (f"step at {result['context']} cached positions", "median ms", "of the limit")
    return grid(
        head, [(k, f"{1000 * v:.3f}", share(k, v, result)) for k, v in result["steps"].items()]
    )


def _drafters(result: dict[str, Any]) -> list[str]:
    """Tabulate each drafter's bytes, cost and accuracy under the exact rule.

    The last column is the speed at its best lookahead if every token were accepted, an upper bound
    for drafters of its cost.
    """
    shown = []
    for name, size in result["drafters"].items():
        rows = result["lookaheads"][name]
        most = rows[min(POSITIONS, len(rows)) - 1]
        passed = [1.0, *(b["tokens"] - a["tokens"] for a, b in pairwise([{"tokens": 1.0}, *rows]))]
        rates = [f"{b / a:.2f}" if a else "-" for a, b in pairwise(passed)]
        chosen = max(rows, key=lambda row: row["speedup"])
        bound = max(row["speedup"] * (row["lookahead"] + 1) / row["tokens"] for row in rows)
        megabytes = "-" if size is None else f"{size / 1e6:.1f}"
        cells = [name, megabytes, f"{_drafted(most, result):.2f}"]
        cells += [*rates, *["-"] * POSITIONS][:POSITIONS]
        shown.append((*cells, chosen["lookahead"], f"{chosen['speedup']:.2f}", f"{bound:.2f}"))
    head = ["drafter, exact rule", "its weights, MB", f"a drafted token of {POSITIONS}, steps"]
    head += [f"passes at {position}" for position in range(1, POSITIONS + 1)]
    head += ["best lookahead", "x autoregressive", "were all to pass"]
    return ["", *grid(head, shown)] if shown else []


def _drafted(row: dict[str, Any], result: dict[str, Any]) -> float:
    """Return the cost of a drafted token in target steps: a round less its verification."""
    drafting = row["round_seconds"] - result["steps"][verify_step(row["lookahead"])]
    return float(drafting / row["lookahead"] / _alone(row))


def _pays(result: dict[str, Any]) -> list[str]:
    """Tabulate each lookahead's round, verification, drafted token, acceptance and speed.

    A drafted token's cost is a round less its verification, in target steps. The last of `k` tokens
    is accepted in the shown share of the rounds that drafted it.
    """
    lines = []
    clock = "core ms" if result["threads"] == 1 else "ms"
    head = [f"a round, {clock}", f"verification, {clock}", "a drafted token, steps"]
    head += ["the last one passes", "tokens a round", "tokens/s", "x autoregressive"]
    for name, rows in result["lookaheads"].items():
        chosen = max(rows, key=lambda row: row["tokens"] / row["round_seconds"])
        shown, before = [], 1.0
        for row in rows:
            k, tokens, seconds = (row[key] for key in ("lookahead", "tokens", "round_seconds"))
            costs = f"{1000 * seconds:.3f}", f"{1000 * result['steps'][verify_step(k)]:.3f}"
            gains = f"{tokens - before:.2f}", f"{tokens:.2f}", f"{tokens / seconds:.0f}"
            first, drafted = f"**{k}**" if row == chosen else k, f"{_drafted(row, result):.2f}"
            shown.append((first, *costs, drafted, *gains, f"{row['speedup']:.2f}"))
            before = tokens
        lines += ["", *grid((f"{name}: lookahead", *head), shown)]
    return lines


def _alone(row: dict[str, Any]) -> float:
    """Return the seconds per token of the target alone, without its prompt, from a row."""
    return float(row["speedup"] * row["round_seconds"] / row["tokens"])


def share(step: str, seconds: float, result: dict[str, Any]) -> str:
    """Format the share of the memory limit that a step reaches; `-` if unknown."""
    model = "draft" if step.startswith("draft") else "target"
    if model not in result["bytes_per_second"] or "token" not in step:
        return "-"
    least = result["bytes_per_step"][model] / result["bytes_per_second"][model]
    return f"{least / seconds:.0%}"


def memory_lines(result: dict[str, Any]) -> list[str]:
    """Tabulate the memory limits, and the share that decoding reaches with and without prompts."""
    rows, threads = [], int(result["threads"])
    compared = next(iter(result.get("lookaheads", {}).values()), None)
    for name, speed in result["bytes_per_second"].items():
        cells = ["-"] * 4
        if size := result["bytes_per_step"].get(name):
            cells[:2] = [f"{size / 1e6:.1f}", f"{speed / size:.{digits(speed / size)}f}"]
        if name == "target":  # by core seconds on one core, which other programs do not lengthen
            alone = result["core_seconds" if threads == 1 else "seconds"][OURS]
            token = float(median(alone)) / int(result["tokens"])
            cells[2] = f"{size / speed / token:.0%}"
            cells[3] = f"{size / speed / _alone(compared[0]):.0%}" if compared else "-"
        rows.append((name, f"{speed / 1e9:.1f}", *cells))
    head = (f"memory, {threads} thread(s)", "GB/s", "MB a step", "limit, steps/s")
    return grid((*head, "autoregressive reaches", "behind the prompt"), rows) if rows else []


def _interval(values: list[float | None] | None) -> str:
    """Format (value, low, high); a single prompt has no interval."""
    if values is None:
        return "-"
    value, low, high = values
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} ({low:.2f}-{high:.2f})"
