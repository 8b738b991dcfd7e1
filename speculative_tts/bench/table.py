"""The table of sst-bench: continuations, steps, and what reading the weights alone would take."""

from statistics import median
from typing import Any

import numpy as np

from speculative_tts.bench.engine import GENERATE, OURS, block_step
from speculative_tts.evaluation.statistics import bootstrap
from speculative_tts.reporting.origin import made_by
from speculative_tts.schema.bench import BenchConfig

PATH_SEARCH = ((1024, 2048, 65_536), 8, 25)  # MTP's: vocabularies, tokens a pass, candidates a head
# PCG's target: tokens, mean group size, positions verified at once; threads
GROUP_RULE = (65_536, 140, 4, 2)


def ratios(config: BenchConfig, seconds: dict[str, list[float]], name: str) -> dict[str, Any]:
    """Tokens a second, and speed against both baselines: ratios of sums with intervals."""
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
    """The result for people."""
    head = ["system", "tokens/s", "ms/token", "of a core"]
    head += ["x autoregressive (95 % CI)", "x generate (95 % CI)"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, row in result["continuations"].items():
        cells = [_interval(row.get(key)) for key in ("vs_autoregressive", "vs_generate")]
        cores = 1000 * _core_seconds(result, name)
        speed = f"{row['tokens_per_second']:.0f} | {row['ms_per_token']:.2f} | {cores:.2f}"
        lines.append(f"| {name} | {speed} | {' | '.join(cells)} |")
    lines += ["", f"| step at {result['context']} cached positions | median ms |", "|---|---|"]
    lines += [f"| {name} | {1000 * value:.3f} |" for name, value in result["steps"].items()]
    tokens, size, positions, threads = GROUP_RULE
    lines += [
        f"| group rule, {tokens} tokens, groups of {size}, {positions} positions, {name}, "
        f"{threads} threads | {1000 * value:.3f} |"
        for name, value in result["group_rule"].items()
    ]
    pass_name = block_step(PATH_SEARCH[1])
    lines += ["", f"| path search | median ms | of the {pass_name} |", "|---|---|---|"]
    lines += [
        f"| {name} | {1000 * value:.3f} | {value / result['steps'][pass_name]:.1%} |"
        for name, value in result["path_search"].items()
    ]
    lines += ["", *_limits(result)]
    sizes = ", ".join(f"{k} {v / 1e6:.1f} MB" for k, v in result["bytes_per_step"].items())
    prompts = len(next(iter(result["seconds"].values())))
    amount = f"{prompts} prompts, {result['tokens']} tokens each"
    lines += ["", f"{amount}, batch 1, {result['threads']} thread(s)."]
    lines += [f"Weights read per step: {sizes}."]
    if "draft" not in result["bytes_per_step"]:
        lines += ["The target has no draft: speculation, its steps and transformers are left out."]
    lines += ["", made_by(result["provenance"])]
    return "\n".join(lines) + "\n"


def _limits(result: dict[str, Any]) -> list[str]:
    """What reading the weights alone would take, beside steps and whole continuations."""
    lines = ["| memory, one core | GB/s | limit, steps/s | a step reaches | autoregressive |"]
    lines += ["|---|---|---|---|---|"]
    for name, speed in result["bytes_per_second"].items():
        cells = ["-"] * 3
        if name in result["bytes_per_step"]:
            limit = speed / result["bytes_per_step"][name]
            step = result["steps"][f"{name} step (1 token)"]
            cells[:2] = [f"{limit:.0f}", f"{1 / step / limit:.0%}"]
        if name == "target":
            cells[2] = f"{1 / _core_seconds(result, OURS) / limit:.0%}"
        lines.append(f"| {name} | {speed / 1e9:.1f} | {' | '.join(cells)} |")
    return lines if len(lines) > 2 else []


def _core_seconds(result: dict[str, Any], name: str) -> float:
    """Of cores, a token: the median continuation's, prefill included."""
    return float(median(result["core_seconds"][name])) / int(result["tokens"])


def _interval(values: list[float | None] | None) -> str:
    """`values` is figure, low, high; one prompt alone has no interval."""
    if values is None:
        return "-"
    value, low, high = values
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} ({low:.2f}-{high:.2f})"
