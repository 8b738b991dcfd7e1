"""Format the tables of sst-bench: continuations, lookaheads, steps, memory limits."""

from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from speculative_tts.bench.engine import OURS, block_step, verify_step
from speculative_tts.bench.peers import GENERATE
from speculative_tts.evaluation.statistics import bootstrap
from speculative_tts.reporting.origin import made_by
from speculative_tts.schema.bench import BenchConfig

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
            pairs = np.array([seconds[base], own]).T
            interval = bootstrap(pairs, draws=config.draws, seed=config.seed)
            row[key] = [interval.value, interval.low, interval.high]
    return row


def table(result: dict[str, Any]) -> str:
    """Format the result as Markdown tables."""
    lines = [*system_lines(result), *_drafters(result), *_pays(result), "", *step_lines(result)]
    tokens, size, positions, threads = GROUP_RULE
    lines += [
        f"| group rule, {tokens} tokens, groups of {size}, {positions} positions, {name}, "
        f"{threads} threads | {1000 * value:.3f} | - |"
        for name, value in result["group_rule"].items()
    ]
    pass_name = block_step(PATH_SEARCH[1])
    lines += ["", f"| path search | median ms | of the {pass_name} |", "|---|---|---|"]
    lines += [
        f"| {name} | {1000 * value:.3f} | {value / result['steps'][pass_name]:.1%} |"
        for name, value in result["path_search"].items()
    ]
    lines += ["", *memory_lines(result)]
    prompts = len(next(iter(result["seconds"].values())))
    amount = f"{prompts} prompts, {result['tokens']} tokens each"
    lines += ["", f"{amount}, batch 1, {result['threads']} thread(s)."]
    if "draft" not in result["bytes_per_step"]:
        lines += [
            "The target has no draft: a draft's rounds and steps and transformers are left out."
        ]
    lines += ["", made_by(result["provenance"])]
    return "\n".join(lines) + "\n"


def system_lines(result: dict[str, Any]) -> list[str]:
    """Tabulate whole continuations."""
    head = ["system", "tokens/s", "ms/token", "of a core"]
    head += ["x autoregressive (95 % CI)", "x generate (95 % CI)"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, row in result["continuations"].items():
        cells = [_interval(row.get(key)) for key in ("vs_autoregressive", "vs_generate")]
        cores = 1000 * _core_seconds(result, name)
        speed = f"{row['tokens_per_second']:.{digits(row['tokens_per_second'])}f}"
        speed += f" | {row['ms_per_token']:.2f} | {cores:.2f}"
        lines.append(f"| {name} | {speed} | {' | '.join(cells)} |")
    return lines


def digits(speed: float) -> int:
    """Return the number of decimals to show of a speed in tokens per second."""
    return 0 if speed >= 100 else 1


def step_lines(result: dict[str, Any]) -> list[str]:
    """Tabulate single steps and the share of the memory limit that they reach."""
    lines = [f"| step at {result['context']} cached positions | median ms | of the limit |"]
    return [*lines, "|---|---|---|"] + [
        f"| {name} | {1000 * value:.3f} | {share(name, value, result)} |"
        for name, value in result["steps"].items()
    ]


def _drafters(result: dict[str, Any]) -> list[str]:
    """Tabulate each drafter's bytes, cost and accuracy under the exact rule.

    The last column is the speed at its best lookahead if every token were accepted, an upper bound
    for drafters of its cost.
    """
    head = ["drafter, exact rule", "its weights, MB", f"a drafted token of {POSITIONS}, steps"]
    head += [f"passes at {position}" for position in range(1, POSITIONS + 1)]
    head += ["best lookahead", "x autoregressive", "were all to pass"]
    lines = ["", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, size in result["drafters"].items():
        rows = result["lookaheads"][name]
        most = rows[min(POSITIONS, len(rows)) - 1]
        passed = [1.0, *(b["tokens"] - a["tokens"] for a, b in pairwise([{"tokens": 1.0}, *rows]))]
        rates = [f"{b / a:.2f}" if a else "-" for a, b in pairwise(passed)]
        chosen = max(rows, key=lambda row: row["speedup"])
        bound = max(row["speedup"] * (row["lookahead"] + 1) / row["tokens"] for row in rows)
        cells = [name, f"{size / 1e6:.1f}", f"{_drafted(most, result):.2f}"]
        cells += [*rates, *["-"] * POSITIONS][:POSITIONS]
        cells += [str(chosen["lookahead"]), f"{chosen['speedup']:.2f}", f"{bound:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines if result["drafters"] else []


def _drafted(row: dict[str, Any], result: dict[str, Any]) -> float:
    """Return the cost of a drafted token in target steps: a round less its verification."""
    drafting = row["round_seconds"] - result["steps"][verify_step(row["lookahead"])]
    return float(drafting / row["lookahead"] / _alone(row))


def _pays(result: dict[str, Any]) -> list[str]:
    """Tabulate each lookahead's round, verification, drafted token, acceptance and speed.

    A drafted token's cost is a round less its verification, in target steps. The last of `k` tokens
    is accepted in the shown share of the rounds that drafted it.
    """
    lines, steps = [], result["steps"]
    for name, rows in result["lookaheads"].items():
        chosen = max(rows, key=lambda row: row["tokens"] / row["round_seconds"])
        lines += [
            "",
            f"| {name}: lookahead | a round, core ms | verification, ms | a drafted token, steps",
        ]
        lines[-1] += " | the last one passes | tokens a round | tokens/s | x autoregressive |"
        lines += ["|" + "---|" * 8]
        before = 1.0
        for row in rows:
            k, tokens, seconds = (row[key] for key in ("lookahead", "tokens", "round_seconds"))
            verified = steps[verify_step(k)]
            text = f"{1000 * seconds:.3f} | {1000 * verified:.3f} | {_drafted(row, result):.2f}"
            text += f" | {tokens - before:.2f} | {tokens:.2f} | {tokens / seconds:.0f}"
            text += f" | {row['speedup']:.2f}"
            lines.append(f"| {f'**{k}**' if row == chosen else k} | {text} |")
            before = tokens
    return lines


def _alone(row: dict[str, Any]) -> float:
    """Return the seconds per token of the target alone, without its prompt, from a row."""
    return float(row["speedup"] * row["round_seconds"] / row["tokens"])


def share(step: str, seconds: float, result: dict[str, Any]) -> str:
    """Format the share of the memory limit that a step reaches; `-` if unknown."""
    model = "draft" if step.startswith("draft") else "target"
    known = model in result["bytes_per_second"] and "token" in step
    if not known:
        return "-"
    least = result["bytes_per_step"][model] / result["bytes_per_second"][model]
    return f"{least / seconds:.0%}"


def memory_lines(result: dict[str, Any]) -> list[str]:
    """Tabulate the memory limits, and the share that decoding reaches with and without prompts."""
    lines, threads = [], int(result["threads"])
    compared = next(iter(result.get("lookaheads", {}).values()), None)
    for name, speed in result["bytes_per_second"].items():
        cells = ["-"] * 4
        if name in result["bytes_per_step"]:
            size = result["bytes_per_step"][name]
            cells[:2] = [f"{size / 1e6:.1f}", f"{speed / size:.{digits(speed / size)}f}"]
        if name == "target":  # by core seconds on one core, which other programs do not lengthen
            alone = result["core_seconds" if threads == 1 else "seconds"][OURS]
            token = float(median(alone)) / int(result["tokens"])
            least = result["bytes_per_step"][name] / speed
            cells[2] = f"{least / token:.0%}"
            cells[3] = f"{least / _alone(compared[0]):.0%}" if compared else "-"
        lines.append(f"| {name} | {speed / 1e9:.1f} | {' | '.join(cells)} |")
    head = [f"memory, {threads} thread(s)", "GB/s", "MB a step", "limit, steps/s"]
    head += ["autoregressive reaches", "behind the prompt"]
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines] if lines else []


def _core_seconds(result: dict[str, Any], name: str) -> float:
    """Return core seconds per token of the median continuation, prefill included."""
    return float(median(result["core_seconds"][name])) / int(result["tokens"])


def _interval(values: list[float | None] | None) -> str:
    """Format (value, low, high); a single prompt has no interval."""
    if values is None:
        return "-"
    value, low, high = values
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} ({low:.2f}-{high:.2f})"
