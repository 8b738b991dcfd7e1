"""Measure the engine's speed beside transformers' on the same weights, and what each step costs.

All systems continue the same prompts in one process. Writes a table (Markdown) and JSON.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speculative_tts.assets import resolve
from speculative_tts.commands import app
from speculative_tts.files import write_atomic
from speculative_tts.records import read_list, spread, write_json
from speculative_tts.schema import BenchConfig

if TYPE_CHECKING:
    from speculative_tts.bench.engine import Continuation
    from speculative_tts.bench.peers import Transformers
    from speculative_tts.decoding.engine import Engine
    from speculative_tts.models.heads import Heads


PATH_SEARCH = ((1024, 2048, 65_536), 8, 25)  # MTP's: vocabularies, tokens a pass, candidates a head
# PCG's target: tokens, mean group size, positions verified at once; threads
GROUP_RULE = (65_536, 140, 4, 2)


def run(config: BenchConfig) -> int:
    """Time continuations and steps, print the table, keep both."""
    out = app.require_writable(config.out)
    if config.gpu:
        from speculative_tts.bench.gpu import run_gpu

        return run_gpu(config, out)
    if config.random is not None:
        from speculative_tts.bench.random import run_random

        return run_random(config, out)

    from tqdm import tqdm

    from speculative_tts.bench import engine as benchmark
    from speculative_tts.bench.roofline import limits
    from speculative_tts.bench.search import search_costs
    from speculative_tts.decoding.build import build_engine
    from speculative_tts.provenance import provenance

    engine = build_engine(config)
    prompts = make_prompts(config, engine)
    peer = peer_of(config, engine)
    with tqdm(total=len(prompts), desc="continuations", unit="prompt") as bar:
        spent = benchmark.continuations(engine, prompts, config.tokens, peer, bar.update)
    seconds = {name: [one.seconds for one in own] for name, own in spent.items()}
    context = len(prompts[0].request.prompt) + config.tokens // 2
    read = {
        name: model.step_bytes
        for name, model in (("target", engine.target), ("draft", engine.draft))
        if model is not None and (name == "target" or benchmark.drafts(engine))
    }
    result = {
        "continuations": {name: ratios(config, seconds, name) for name in seconds},
        "seconds": seconds,
        "core_seconds": {name: [one.cores for one in own] for name, own in spent.items()},
        "context": context,
        "steps": benchmark.step_costs(
            engine, heads_of(config, engine), context, PATH_SEARCH[1], config.steps
        ),
        "group_rule": benchmark.group_rule_costs(*GROUP_RULE, 30, engine.target.device),
        "path_search": search_costs(*PATH_SEARCH, config.steps, engine.target.device),
        "bytes_per_step": read,
        "bytes_per_second": limits(read),
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


def peer_of(config: BenchConfig, engine: "Engine") -> "Transformers | None":
    """Target and draft as transformers run them; None if not wanted, or without a draft."""
    import torch

    from speculative_tts.bench.engine import drafts
    from speculative_tts.bench.peers import Transformers

    if not config.transformers or not drafts(engine):
        return None
    target, draft = resolve(config.target.path), resolve(config.draft.path)
    dtype = getattr(torch, config.runtime.dtype.value)
    return Transformers(target, draft, dtype, engine.target.device)


def heads_of(config: BenchConfig, engine: "Engine") -> "Heads | None":
    """All multi-token heads of the target, whose folder is beside its own; None without one."""
    import torch

    from speculative_tts.models.heads import load_heads

    try:
        folder = resolve(f"{config.target.path}_heads")
    except ValueError:
        return None
    dtype = getattr(torch, config.runtime.dtype.value)
    target, device = resolve(config.target.path), engine.target.device
    return load_heads(folder, None, target=target, dtype=dtype, device=device)


def make_prompts(config: BenchConfig, engine: "Engine") -> list["Continuation"]:
    """Prompts of the test list, each to be continued by exactly config.tokens tokens."""
    from speculative_tts.bench.engine import Continuation
    from speculative_tts.codecs.audio import read_wave
    from speculative_tts.decoding.voices import encode_prompt
    from speculative_tts.models.prompt import Prompt

    prompts = []
    for item in spread(read_list(resolve(config.data.path)), config.limit):
        wave = read_wave(Path(item.prompt_audio), engine.codec.sample_rate)
        codes = encode_prompt(engine.codec, wave, item.prompt_audio)
        asked = Prompt(item.text, item.prompt_text, codes)
        request = engine.request(item.id, asked, config.seed)
        request = dataclasses.replace(request, min_tokens=config.tokens, max_tokens=config.tokens)
        prompts.append(Continuation(request, engine.target.prompt_ids(asked)))
    return prompts


def ratios(config: BenchConfig, seconds: dict[str, list[float]], name: str) -> dict[str, Any]:
    """Tokens a second, and speed against both baselines: ratios of sums with intervals."""
    import numpy as np

    from speculative_tts.bench.engine import GENERATE, OURS
    from speculative_tts.evaluation.statistics import bootstrap

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
    from speculative_tts.bench.engine import block_step
    from speculative_tts.reporting.origin import made_by

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
    from speculative_tts.bench.engine import OURS

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
    from statistics import median

    return float(median(result["core_seconds"][name])) / int(result["tokens"])


def _interval(values: list[float | None] | None) -> str:
    """`values` is figure, low, high; one prompt alone has no interval."""
    if values is None:
        return "-"
    value, low, high = values
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} ({low:.2f}-{high:.2f})"


main = app.command(
    "bench",
    BenchConfig,
    run,
    examples=(
        "sst-bench",
        "sst-bench lookahead=5 tokens=200 out=bench",
        "sst-bench target=tiny_valle",
        "sst-bench random=cosyvoice2 limit=3 tokens=50 runtime.threads=2",
        "sst-bench gpu=true tokens=200",
    ),
    implied=app.CODEC_OF_TARGET + app.WITHOUT_DRAFT,
)
