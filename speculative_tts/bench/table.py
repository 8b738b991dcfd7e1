"""Format the tables of sst-bench: continuations, lookaheads, steps, memory limits."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from speculative_tts.bench import engine, search
from speculative_tts.bench.engine import OURS, block_step
from speculative_tts.bench.figures import ONE_PROCESS, RATIO, cell, digits, grid
from speculative_tts.bench.huggingface import GENERATE
from speculative_tts.bench.rounds import Part, drafter_lines, lookahead_lines, rounds
from speculative_tts.evaluation.processes import Cells, interval, over_processes
from speculative_tts.evaluation.statistics import LEAST, Array, bootstrap
from speculative_tts.reporting.origin import made_by
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.texts import with_interval

COLUMNS = (
    "Of a core: core milliseconds a token. Steps are the target's own; a drafted token costs a "
    "round less its verification. That is too little, on small targets below 0, where single "
    "passes are called from Python and rounds run in one native call. Passes at a place: if those "
    "before it did. Were all to pass: the bound of any draft of that cost. Lookaheads are compared "
    "by rounds alone, without the prompt, which measures no speedup; those that were best in the "
    "first process are timed whole. The limit is what reading the weights from memory allows; "
    "behind the prompt leaves the prompt out."
)


def ratios(
    config: BenchConfig, seconds: Mapping[str, list[float]], cores: list[float], name: str
) -> dict[str, list[float | None]]:
    """Return tokens per second, core milliseconds a token and speed ratios to both baselines.

    Each is a value and the ends of its interval.
    """
    own, tokens = seconds[name], [float(config.tokens)] * len(seconds[name])
    pairs = {"tokens_per_second": (tokens, own), "core_ms": ([1000 * one for one in cores], tokens)}
    for key, base in (("vs_autoregressive", OURS), ("vs_generate", GENERATE)):
        if base in seconds:
            pairs[key] = seconds[base], own
    return {key: _ratio(config, np.array(pair).T) for key, pair in pairs.items()}


def _ratio(config: BenchConfig, pairs: Array) -> list[float | None]:
    """Return a ratio of sums, its interval over what `timed_in` says."""
    prompts = len(pairs) // config.processes
    process, prompt = np.divmod(np.arange(len(pairs)), prompts)
    cells = Cells(process.tolist(), prompt.tolist(), pairs)
    if config.processes == 1:
        found = bootstrap(pairs, draws=config.draws, seed=config.seed)
    else:
        found = over_processes(cells, RATIO) if prompts < LEAST else interval(cells, RATIO)
    return [found.value, found.low, found.high]


def table(result: Mapping[str, Any]) -> str:
    """Format the result as Markdown tables."""
    processes = result["processes"]
    prompts = len(next(iter(result["seconds"].values()))) // processes
    amount = f"{prompts} prompts, {result['tokens']} tokens each"
    lines = [timed_in(processes, prompts), "", *system_lines(result)]
    lines += [*drafter_lines(result), *lookahead_lines(result), ""]
    lines += [*step_lines(result), *_group_rule_rows(result["parts"]), ""]
    lines += [*_search_lines(result["parts"]), "", *memory_lines(result), ""]
    lines += [f"{amount}, batch 1, {result['threads']} thread(s).", COLUMNS]
    if "draft" not in result["bytes_per_step"]:
        lines += [
            "The target has no draft: a draft's rounds and steps and transformers are left out."
        ]
    lines += [result["left_out"]] if result["left_out"] else []
    return "\n".join([*lines, "", made_by(result["provenance"])]) + "\n"


def timed_in(processes: int, prompts: int) -> str:
    """Say in how many processes all was timed, and what intervals are over."""
    if processes == 1:
        return ONE_PROCESS
    units = "processes, of these few prompts" if prompts < LEAST else "processes and prompts"
    return (
        f"Timed in {processes} processes, one after the other, each of which measured all that "
        f"stands here: brackets are 95 % intervals, of whole continuations over {units}, of all "
        "else over processes."
    )


def system_lines(result: Mapping[str, Any]) -> list[str]:
    """Tabulate whole continuations."""
    keys = "core_ms", "vs_autoregressive", "vs_generate"
    head = ("system", "tokens/s", "of a core", "x autoregressive", "x generate")
    rows = []
    for name, row in result["continuations"].items():
        speed = with_interval(row["tokens_per_second"], f".{digits(row['tokens_per_second'][0])}f")
        others = [with_interval(row[key], ".2f") if key in row else "-" for key in keys]
        rows.append((name, speed, *others))
    return grid(head, rows)


def step_lines(result: Mapping[str, Any]) -> list[str]:
    """Tabulate single steps and the share of the memory limit that they reach."""
    head = (f"step at {result['context']} cached positions", "median ms", "of the limit")
    parts = result["parts"]
    return grid(head, [(k, _ms(parts, "steps", k), _share(k, result)) for k in parts[0]["steps"]])


def _group_rule_rows(parts: Sequence[Part]) -> list[str]:
    """Return the rows of PCG's rule, which stand below the steps."""
    tokens, size, positions, threads = engine.GROUP_RULE
    rule = f"group rule, {tokens} tokens, groups of {size}, {positions} positions"
    return [
        f"| {rule}, {name}, {threads} threads | {_ms(parts, 'group_rule', name)} | - |"
        for name in parts[0]["group_rule"]
    ]


def _search_lines(parts: Sequence[Part]) -> list[str]:
    """Tabulate path searches and their shares of a target's pass over a block."""
    whole, shown = block_step(search.PATH_SEARCH[1]), []
    for name in parts[0]["path_search"]:
        shares = [part["path_search"][name] / part["steps"][whole] for part in parts]
        shown.append((name, _ms(parts, "path_search", name), cell(shares, ".1%")))
    return grid(("path search", "median ms", f"of the {whole}"), shown)


def _ms(parts: Sequence[Part], kind: str, name: str) -> str:
    return cell([1000 * part[kind][name] for part in parts], ".3f")


def _share(step: str, result: Mapping[str, Any]) -> str:
    """Format the share of the memory limit that a step reaches; `-` if unknown."""
    model, parts = "draft" if step.startswith("draft") else "target", result["parts"]
    if model not in parts[0]["bytes_per_second"] or "token" not in step:
        return "-"
    size = result["bytes_per_step"][model]
    return cell(
        [size / one["bytes_per_second"][model] / one["steps"][step] for one in parts], ".0%"
    )


def memory_lines(result: Mapping[str, Any]) -> list[str]:
    """Tabulate the memory limits, and the share that decoding reaches with and without prompts."""
    rows, parts = [], result["parts"]
    for name in parts[0]["bytes_per_second"]:
        speeds = [part["bytes_per_second"][name] for part in parts]
        cells = ["-"] * 4
        if size := result["bytes_per_step"].get(name):
            limits = [speed / size for speed in speeds]
            cells[:2] = [f"{size / 1e6:.1f}", cell(limits, f".{digits(limits[0])}f")]
        if name == "target":
            for column, tokens in ((2, _alone(result)), (3, _behind_prompt(parts))):
                reached = [size / one / token for one, token in zip(speeds, tokens, strict=False)]
                cells[column] = cell(reached, ".0%") if reached else "-"
        rows.append((name, cell([speed / 1e9 for speed in speeds], ".1f"), *cells))
    head = (f"memory, {result['threads']} thread(s)", "GB/s", "MB a step", "limit, steps/s")
    return grid((*head, "autoregressive reaches", "behind the prompt"), rows) if rows else []


def _alone(result: Mapping[str, Any]) -> list[float]:
    """Return seconds a token of the target alone, prompt included, of each process.

    On one core they are the core's, which other programs do not lengthen.
    """
    spent = result["core_seconds" if result["threads"] == 1 else "seconds"][OURS]
    each = np.reshape(spent, (result["processes"], -1))
    return [median(own) / result["tokens"] for own in each.tolist()]


def _behind_prompt(parts: Sequence[Part]) -> list[float]:
    """Return seconds a token of the target alone behind its prompt; empty if not measured."""
    name = next(iter(parts[0].get("lookaheads", {})), None)
    return [] if name is None else [one.alone for one in rounds(parts, name)[0]]
