"""Run sst-bench random=<model>: time a target of real size with random weights, and its draft.

Steps cost what they cost with real weights; the acceptance is that of random weights, so the
speed is also given for other acceptance rates, computed from the steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from speculative_tts.bench.engine import (
    OURS,
    Continuation,
    Decode,
    Times,
    continuations,
    joined,
    synthetic_groups,
    verify_step,
)
from speculative_tts.bench.figures import cell, grid
from speculative_tts.bench.roofline import limits
from speculative_tts.bench.rounds import Part
from speculative_tts.bench.table import memory_lines, ratios, step_lines, system_lines, timed_in
from speculative_tts.costs.timer import medians
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.engine import timed
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.files import write_atomic
from speculative_tts.models.families.code_lm import CodeLM
from speculative_tts.native.library import select
from speculative_tts.progress import progress
from speculative_tts.provenance import free_gib, peak_gib, provenance
from speculative_tts.records import Counts
from speculative_tts.reporting.origin import made_by
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.schema.common import Device, GroupsConfig
from speculative_tts.schema.rules import ExactRule, GroupRule, RuleConfig, ToleranceRule
from speculative_tts.typed import write_json
from speculative_tts.workers import afresh
from speculative_tts_benchmarks.other_engines import PEERS, Making, others
from speculative_tts_benchmarks.sizes import SIZES, ModelSize

SPECULATIVE = "speculative"
RATES = (0.4, 0.6, 0.8)  # acceptance rates (accepted of drafted) for which speed is computed
CONTEXT = 200  # cached positions of a step that is timed
STEPS = 20  # repeats of a step, at most


def run_random(config: BenchConfig, out: Path) -> int:
    """Time continuations and steps of random weights, print the table, keep both."""
    if config.random not in SIZES:
        raise ValueError(f"random {config.random!r} is unknown; known: {', '.join(SIZES)}")
    size = SIZES[config.random]
    groups = config.rule.groups if isinstance(config.rule, GroupRule) else GroupsConfig()
    if groups.theta is not None or groups.path is not None:
        raise ValueError(
            "random weights have no similar tokens: rule.groups.theta and rule.groups.path mean "
            "nothing to them; give rule.groups.mean_size=<tokens of a group>"
        )
    check_memory(config, size)
    result = measured(config, size) | {"provenance": provenance(config)}
    name = f"{config.random}_random"
    write_json(out / f"{name}.json", result)
    write_atomic(out / f"{name}.md", table(result))
    print(table(result))
    print(f"written to {out / name}.md and {out / name}.json")
    return 0


def check_memory(config: BenchConfig, size: ModelSize) -> None:
    """Raise ValueError if the weights of all timed engines exceed the known free memory."""
    dtype = getattr(torch, config.runtime.dtype.value)
    free, copies = free_gib(), 1 + config.transformers + len(PEERS)
    needed = copies * size.parameters * dtype.itemsize / 2**30
    if config.runtime.device is Device.cpu and free is not None and needed > free:
        raise ValueError(
            f"random={config.random} takes {needed:.1f} GiB of memory, {free:.1f} are free; give "
            "runtime.dtype=bfloat16 transformers=false, fewer peers, or a smaller size"
        )


@dataclass(frozen=True)
class ProcessTimes:
    """The times and counts of one process."""

    whole: Times
    first: Times  # of each prompt and one token
    steps: dict[str, float]
    bytes_per_second: dict[str, float]
    counts: list[Counts]  # of the second model's rounds
    peak: float  # GiB of this engine alone


class Models:
    """Random weights of one size, as a process makes them: target and draft."""

    def __init__(self, config: BenchConfig) -> None:
        torch.set_num_threads(config.runtime.threads)
        select(config.runtime.kernels)
        assert config.random is not None
        self.config, self.size = config, SIZES[config.random]
        self.device = torch.device(config.runtime.device.value)
        dtype = getattr(torch, config.runtime.dtype.value)
        self.weights = self.size.weights(dtype, config.seed)
        self.target = self.weights.model(dtype, self.device)
        self.draft = self.size.draft_of(self.target)

    @property
    def read(self) -> dict[str, int]:
        """The bytes of weights that a step of each model reads."""
        return {"target": self.target.step_bytes, "draft": self.draft.step_bytes}

    def timed(self) -> ProcessTimes:
        """Continue every prompt by every system in turn; time single steps and memory."""
        config, made = self.config, list[Outcome]()
        seeds = range(config.seed, config.seed + config.limit)
        prompts = [prompt_of(config, self.size, self.target, seed) for seed in seeds]
        systems = ours(config, self.size, self.target, self.draft, made)
        for decode in systems.values():
            decode(prompts[0])
        peak = peak_gib()  # before the others come
        systems |= others(config, self.size, self.weights, self.device)
        with progress(total=len(prompts), desc="continuations", unit="prompt") as bar:
            whole = continuations(systems, prompts, bar.update)
        first = continuations(systems, [prompt.first for prompt in prompts], lambda: None)
        steps = _steps(config, self.target, self.draft)
        memory = limits(self.read, config.runtime.threads)
        counts = [outcome.counts for outcome in made]
        return ProcessTimes(whole, first, steps, memory, counts, peak)


def _elsewhere(piece: tuple[BenchConfig, dict[str, Making]]) -> ProcessTimes:
    """Time all systems in this process, which was made for it."""
    config, peers = piece
    PEERS.update(peers)
    return Models(config).timed()


def measured(config: BenchConfig, size: ModelSize) -> dict[str, Any]:
    """Time all systems with the weights of one size, and what each process measures of steps."""
    models = Models(config)
    elsewhere = afresh(_elsewhere, [(config, dict(PEERS))] * (config.processes - 1))
    times = [models.timed(), *elsewhere]
    spent = joined([one.whole for one in times])
    seconds = {name: [one.seconds for one in own] for name, own in spent.items()}
    cores = {name: [one.cores for one in own] for name, own in spent.items()}
    counts = [one for own in times for one in own.counts]
    return {
        "model": f"{size.title}, {config.runtime.dtype.name}, random weights, "
        f"{_label(config.rule)}, lookahead {int(config.lookahead)}",
        "continuations": {name: ratios(config, seconds, cores[name], name) for name in seconds},
        "seconds": seconds,
        "core_seconds": cores,
        "parts": [_part(one, config) for one in times],
        "acceptance_rate": sum(c.accepted for c in counts) / max(1, sum(c.drafted for c in counts)),
        "context": CONTEXT,
        "bytes_per_step": models.read,
        "peak_gib": times[0].peak,
        "processes": config.processes,
        "tokens": config.tokens,
        "prompts": config.limit,
        "threads": config.runtime.threads,
    }


def _part(one: ProcessTimes, config: BenchConfig) -> Part:
    """Return what a process measured beside whole continuations, as JSON values."""
    first, whole = (
        {name: median(spent.cores for spent in own) for name, own in times.items()}
        for times in (one.first, one.whole)
    )
    return {
        "prompt_core_seconds": first,
        "token_core_seconds": {
            name: (whole[name] - first[name]) / (config.tokens - 1) for name in whole
        },
        "steps": one.steps,
        "computed_speedup": {
            str(rate): computed(one.steps, rate, int(config.lookahead)) for rate in RATES
        },
        "bytes_per_second": one.bytes_per_second,
    }


def prompt_of(config: BenchConfig, size: ModelSize, target: CodeLM, seed: int) -> Continuation:
    """Make one prompt to continue, for all systems."""
    lengths = (config.tokens, config.tokens)
    request = Request(str(seed), size.prompt(target, seed), None, *lengths, config.seed)
    return Continuation(request, size.ids(seed))


def ours(
    config: BenchConfig, size: ModelSize, target: CodeLM, draft: CodeLM, made: list[Outcome]
) -> dict[str, Decode]:
    """Return the target alone and with its draft, by name; outcomes are appended to `made`."""
    rule = rule_of(config.rule, target.vocab_size, target.device)
    stops: tuple[int, ...] = ()  # none: every continuation has its length
    given = (target, LMDrafter(draft), rule, size.sampler, stops, int(config.lookahead))
    speculation = Speculation(*given)

    def alone(prompt: Continuation) -> float:
        decode = partial(autoregressive, target, stops, size.sampler, [prompt.request])
        return timed(target.device, lambda _: decode()).seconds

    def sped(prompt: Continuation) -> float:
        found = timed(target.device, lambda _: speculation.decode([prompt.request]))
        made.extend(found.outcomes)
        return found.seconds

    return {OURS: alone, SPECULATIVE: sped}


def _steps(config: BenchConfig, target: CodeLM, draft: CodeLM) -> dict[str, float]:
    """Return the median seconds of a target step, a verification and a draft step."""
    start = torch.tensor([CONTEXT], device=target.device)
    cases = {
        "target step (1 token)": (target, 1),
        verify_step(int(config.lookahead)): (target, int(config.lookahead) + 1),
        "draft step (1 token)": (draft, 1),
    }
    steps = {}
    for name, (model, new) in cases.items():
        cache = model.cache(1, CONTEXT + new)
        ids = torch.zeros(1, new, dtype=torch.int64, device=target.device)
        steps[name] = partial(model.extend, ids, cache, start)
    with torch.inference_mode():
        return medians(steps, min(config.steps, STEPS))


def rule_of(config: RuleConfig, vocab: int, device: torch.device) -> AcceptanceRule:
    """Build the configured rule; groups are synthetic."""
    if isinstance(config, GroupRule):
        return synthetic_groups(vocab, round(config.groups.size), device)
    if not isinstance(config, ExactRule | ToleranceRule):
        raise ValueError(
            f"rule={config.name} is not timed with random weights; give exact, tolerance or group"
        )
    return Tolerance(config.beta if isinstance(config, ToleranceRule) else 0.0)


def _label(config: RuleConfig) -> str:
    detail = ""
    if isinstance(config, ToleranceRule):
        detail = f", beta {config.beta:g}"
    if isinstance(config, GroupRule):
        detail = f", synthetic groups of {round(config.groups.size)}"
    return f"rule {config.name}{detail}"


def computed(steps: dict[str, float], rate: float, lookahead: int) -> float:
    """Compute the speedup over the autoregressive loop at a given acceptance rate.

    Tokens of a round are 1 + rate + ... + rate^lookahead (Leviathan et al., 2023, equation 1).
    """
    tokens = sum(rate**n for n in range(lookahead + 1))
    cost = steps[verify_step(lookahead)] + lookahead * steps["draft step (1 token)"]
    return tokens * steps["target step (1 token)"] / cost


def table(result: dict[str, Any]) -> str:
    """Format the result as Markdown tables."""
    title = f"{result['model']}, batch 1, {result['prompts']} prompts"
    lines = [title, "", timed_in(result["processes"], result["prompts"]), ""]
    lines += system_lines(result)
    lines += [
        "",
        *_prompts(result["parts"]),
        "",
        *step_lines(result),
        "",
        *memory_lines(result),
        "",
    ]
    lines += [*expected(result["parts"]), ""]
    lines += [f"{result['tokens']} tokens each, {result['threads']} thread(s)."]
    lines += [f"Acceptance rate of the random draft {result['acceptance_rate']:.2f}."]
    lines += [f"Peak memory of ours {result['peak_gib']:.1f} GiB.", ""]
    return "\n".join([*lines, made_by(result["provenance"])]) + "\n"


def expected(parts: Sequence[Part]) -> list[str]:
    """Tabulate the speedups that the steps allow at assumed acceptance rates."""
    rows = []
    for rate in (None, *map(str, RATES)):
        speedups = [one["computed_speedup"][rate] if rate else 1.0 for one in parts]
        steps = [one["steps"]["target step (1 token)"] for one in parts]
        speeds = [speedup / alone for speedup, alone in zip(speedups, steps, strict=True)]
        rows.append((rate or "target alone", cell(speedups, ".2f"), cell(speeds, ".1f")))
    return grid(("acceptance, assumed", "x autoregressive, computed", "tokens/s, computed"), rows)


def _prompts(parts: Sequence[Part]) -> list[str]:
    """Tabulate core milliseconds of a prompt and of each further token, from medians."""
    rows = []
    for name in parts[0]["prompt_core_seconds"]:
        first = [1000 * one["prompt_core_seconds"][name] for one in parts]
        further = [1000 * one["token_core_seconds"][name] for one in parts]
        rows.append((name, cell(first, ".0f"), cell(further, "z.1f", signed=True)))
    return grid(("system", "prompt and first token, core ms", "a further token, core ms"), rows)
