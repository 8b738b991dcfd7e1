"""sst-bench random=<model>: a real-size target with random weights, its draft, and their speed.

Steps cost what they cost with real weights; the acceptance is that of random weights, so the
speed is also given for other acceptance rates, computed from the steps.
"""

from functools import partial
from pathlib import Path
from typing import Any

import torch

from speculative_tts.bench.engine import synthetic_groups
from speculative_tts.bench.random_cosyvoice import COSYVOICE2, Use, continue_prompts
from speculative_tts.bench.random_llasa import LLASA_1B
from speculative_tts.costs.timer import median_seconds
from speculative_tts.decoding.acceptance import AcceptanceRule, Tolerance
from speculative_tts.files import write_atomic
from speculative_tts.models.native.library import select
from speculative_tts.provenance import peak_gib, provenance
from speculative_tts.records import write_json
from speculative_tts.reporting.origin import made_by
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.schema.common import GroupsConfig
from speculative_tts.schema.decode import GroupRule, RuleConfig, ToleranceRule

KINDS: dict[str, Use] = {"cosyvoice2": COSYVOICE2, "llasa_1b": LLASA_1B}
RATES = (0.4, 0.6, 0.8)  # acceptance rates (accepted of drafted) for which speed is computed


def run_random(config: BenchConfig, out: Path) -> int:
    """Time continuations and steps of random weights, print the table, keep both."""
    if config.random not in KINDS:
        raise ValueError(f"random {config.random!r} is unknown; known: {', '.join(KINDS)}")
    use = KINDS[config.random]
    groups = config.rule.groups if isinstance(config.rule, GroupRule) else GroupsConfig()
    if groups.theta is not None or groups.path is not None:
        raise ValueError(
            "random weights have no similar tokens: rule.groups.theta and rule.groups.path mean "
            "nothing to them; give rule.groups.mean_size=<tokens of a group>"
        )
    torch.set_num_threads(config.runtime.threads)
    select(config.runtime.kernels)
    device = torch.device(config.runtime.device.value)
    dtype = getattr(torch, config.runtime.dtype.value)
    target = use.make(dtype, device, config.seed)
    draft = use.draft_of(target)
    runs = continue_prompts(
        target,
        draft,
        rule_of(config.rule, target.vocab_size, device),
        lookahead=config.drafted,
        tokens=config.tokens,
        count=config.limit,
        seed=config.seed,
        use=use,
    )
    steps = _steps(config, target, draft)
    sped = [run.outcome.counts for run in runs["speculative"]]
    result: dict[str, Any] = {
        "model": f"{use.title}, random weights, {_label(config.rule)}",
        "tokens_per_second": {
            name: config.tokens * len(own) / sum(run.seconds for run in own)
            for name, own in runs.items()
        },
        "acceptance_rate": sum(o.accepted for o in sped) / max(1, sum(o.drafted for o in sped)),
        "steps": steps,
        "computed_speedup": {rate: computed(steps, rate, config.drafted) for rate in RATES},
        "peak_gib": peak_gib(),
        "tokens": config.tokens,
        "prompts": config.limit,
        "provenance": provenance(config),
    }
    name = f"{config.random}_random"
    write_json(out / f"{name}.json", result)
    write_atomic(out / f"{name}.md", table(result))
    print(table(result))
    print(f"written to {out / name}.md and {out / name}.json")
    return 0


def _steps(config: BenchConfig, target: Any, draft: Any) -> dict[str, float]:
    """Median seconds of a target step, a verification and a draft step at 200 positions."""
    start, found = torch.tensor([200], device=target.device), {}
    cases = {
        "target step (1 token)": (target, 1),
        "verify": (target, config.drafted + 1),
        "draft step (1 token)": (draft, 1),
    }
    with torch.inference_mode():
        for name, (model, new) in cases.items():
            cache = model.cache(1, 200 + new)
            ids = torch.zeros(1, new, dtype=torch.int64, device=target.device)
            step = partial(model.extend, ids, cache, start)
            found[name] = median_seconds(step, min(config.steps, 20))
    return found


def rule_of(config: RuleConfig, vocab: int, device: torch.device) -> AcceptanceRule:
    """The rule that was asked for; its groups, where it has some, are synthetic."""
    if isinstance(config, GroupRule):
        return synthetic_groups(vocab, round(config.groups.size), device)
    return Tolerance(config.beta if isinstance(config, ToleranceRule) else 0.0)


def _label(config: RuleConfig) -> str:
    detail = ""
    if isinstance(config, ToleranceRule):
        detail = f", beta {config.beta:g}"
    if isinstance(config, GroupRule):
        detail = f", synthetic groups of {round(config.groups.size)}"
    return f"rule {config.name.name}{detail}"


def computed(steps: dict[str, float], rate: float, lookahead: int) -> float:
    """Speedup over the autoregressive loop if each drafted token is accepted with this rate.

    Tokens of a round are 1 + rate + ... + rate^lookahead (Leviathan et al., 2023, equation 1).
    """
    tokens = sum(rate**n for n in range(lookahead + 1))
    cost = steps["verify"] + lookahead * steps["draft step (1 token)"]
    return tokens * steps["target step (1 token)"] / cost


def table(result: dict[str, Any]) -> str:
    """The result for people."""
    lines = [f"{result['model']}, batch 1, {result['prompts']} prompts", ""]
    lines += ["| system | tokens/s |", "|---|---|"]
    lines += [f"| {name} | {speed:.2f} |" for name, speed in result["tokens_per_second"].items()]
    lines += ["", "| step at 200 cached positions | median ms |", "|---|---|"]
    lines += [f"| {name} | {1000 * value:.1f} |" for name, value in result["steps"].items()]
    rates = ", ".join(f"{rate}: {x:.2f}" for rate, x in result["computed_speedup"].items())
    lines += ["", f"Acceptance rate of the random draft {result['acceptance_rate']:.2f}."]
    lines += [f"Speedup computed from the steps by acceptance rate: {rates}."]
    lines += [f"Peak memory {result['peak_gib']:.1f} GiB.", "", made_by(result["provenance"])]
    return "\n".join(lines) + "\n"
