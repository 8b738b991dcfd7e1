"""Time the engine on a GPU: CUDA graphs on and off, batches, models of real size.

Weights are random, so a coin replaces the rule and sets how often a draft is accepted.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.bench.sizes import SIZES, Size
from speculative_tts.costs.timer import median_seconds
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.graphs import EAGER, Capture, Graphs, cuda_graph
from speculative_tts.decoding.loops.observer import synchronise
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.files import write_atomic
from speculative_tts.provenance import provenance
from speculative_tts.records import write_json
from speculative_tts.reporting.origin import made_by
from speculative_tts.schema.bench import BenchConfig

BATCHES = (1, 8, 64)
RATES = (0.6, 0.8)  # of drafted tokens that pass
CPU = torch.device("cpu")
READ = 1 << 30  # bytes that the memory's speed is measured with
PARITY = "cosyvoice2"  # also run on the CPU, in float32


@dataclass(frozen=True)
class Coin:
    """A stand-in for a rule that accepts each drafted token with a fixed probability."""

    rate: float

    def accept(
        self,
        target_probs: Tensor,  # noqa: ARG002
        draft_probs: Tensor,  # noqa: ARG002
        drafted: Tensor,  # noqa: ARG002
        uniforms: Tensor,
    ) -> Tensor:
        """See `AcceptanceRule`."""
        return uniforms[..., 0] < self.rate

    def residual(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:  # noqa: ARG002
        """See `AcceptanceRule`."""
        return target_probs

    output_law = residual

    def acceptance_probability(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:  # noqa: ARG002
        """See `AcceptanceRule`."""
        return torch.full_like(target_probs[..., 0], self.rate)


def run_gpu(config: BenchConfig, out: Path) -> int:
    """Measure every size, print the table, keep it. ValueError without a GPU."""
    if not torch.cuda.is_available():
        raise ValueError(
            "gpu=true needs a GPU that torch can see; without one measure real sizes on the CPU "
            "by random=cosyvoice2"
        )
    device, made = torch.device("cuda"), {}
    for name, size in SIZES.items():
        torch.cuda.reset_peak_memory_stats()
        made[name] = measured(size, config, device, {"on": cuda_graph, "off": None}, BATCHES)
        made[name]["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    result = {
        "sizes": made,
        "parity": parity(SIZES[PARITY], config.seed, device),
        "bytes_per_second": bandwidth(device),
        "tokens": config.tokens,
        "lookahead": config.drafted,
        "provenance": provenance(config),
    }
    slug = re.sub(r"[^a-z0-9]+", "_", torch.cuda.get_device_name().lower()).strip("_")
    write_json(out / f"gpu_{slug}.json", result)
    write_atomic(out / f"gpu_{slug}.md", table(result))
    print(table(result))
    return 0


def measured(
    size: Size,
    config: BenchConfig,
    device: torch.device,
    captures: dict[str, Capture | None],
    batches: Sequence[int],
) -> dict[str, Any]:
    """Return tokens per second of one size in bfloat16, by graphs, batch and system."""
    target = size.make(torch.bfloat16, device, config.seed)
    drafter = LMDrafter(size.draft_of(target))
    speeds = []
    for graphs, capture in captures.items():
        kept = EAGER if capture is None else Graphs(capture)
        for batch in batches:
            requests = [
                Request(str(row), size.prompt(target, row), None, config.tokens, config.tokens, 0)
                for row in range(batch)
            ]
            row: dict[str, Any] = {"graphs": graphs, "batch": batch}
            systems = {"alone": partial(autoregressive, target, (), size.sampler, requests, kept)}
            for rate in RATES:
                parts = (target, drafter, Coin(rate), size.sampler, (), config.drafted)
                decode = Speculation(*parts).decode
                systems[f"{rate}"] = partial(decode, requests, graphs=kept)
            for name, run in systems.items():
                row[name] = batch * config.tokens / fastest(run, device)
            speeds.append(row)
    return {"title": size.title, "bytes_per_step": target.step_bytes, "speeds": speeds}


def fastest(decode: Callable[[], object], device: torch.device) -> float:
    """Return the best of three times of a batch, prefill included; the first captures graphs."""
    best = float("inf")
    for _ in range(3):
        synchronise(device)
        begin = time.perf_counter()
        decode()
        synchronise(device)
        best = min(best, time.perf_counter() - begin)
    return best


@torch.inference_mode()
def parity(size: Size, seed: int, device: torch.device) -> dict[str, float]:
    """Return the mean total variation of next-token distributions from the CPU's, by format.

    float32 products are not rounded to TensorFloat-32.
    """
    codes = torch.arange(0, 160, 10)[None]

    def laws(where: torch.device, dtype: torch.dtype) -> Tensor:
        model = size.make(dtype, where, seed)
        given = size.prompt(model, seed)
        cache = model.cache(1, len(given) + codes.shape[1])
        model.prefill([given], cache)
        start = torch.tensor([len(given)], device=where)
        found: Tensor = model.extend(codes.to(where), cache, start)[0].cpu().softmax(-1)
        return found

    exact = laws(CPU, torch.float32)
    apart = {}
    for name in ("float32", "bfloat16"):
        found = laws(device, getattr(torch, name))
        apart[name] = float((found - exact).abs().sum(-1).mean()) / 2
    return apart


def bandwidth(device: torch.device, size: int = READ) -> float:
    """Measure the device's memory bandwidth in bytes per second, by a sum over many numbers."""
    data = torch.ones(size // 4, device=device)

    def read() -> None:
        data.sum()
        synchronise(device)

    return size / median_seconds(read, 10)


def table(result: dict[str, Any]) -> str:
    """Format the result as Markdown tables."""
    rates = [f"x, {rate:g} pass (synthetic)" for rate in RATES]
    head = ["size", "graphs", "batch", "tokens/s alone", "of the memory's limit", *rates]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for size in result["sizes"].values():
        limit = result["bytes_per_second"] / size["bytes_per_step"]
        for row in size["speeds"]:
            own, sped = row["alone"], [row[f"{rate}"] / row["alone"] for rate in RATES]
            cells = [size["title"], row["graphs"], row["batch"], f"{own:.0f}"]
            cells += [f"{own / row['batch'] / limit:.0%}", *(f"{times:.2f}" for times in sped)]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    apart = ", ".join(f"{name} {value:.1g}" for name, value in result["parity"].items())
    lines += ["", f"{result['tokens']} tokens a row, bfloat16, lookahead {result['lookahead']}."]
    lines += [f"Memory reads {result['bytes_per_second'] / 1e9:.0f} GB/s."]
    lines += [f"Laws beside the CPU's in float32, mean total variation: {apart}."]
    peaks = ", ".join(f"{s['title']} {s.get('peak_gib', 0):.1f}" for s in result["sizes"].values())
    lines += [f"Peak memory, GiB: {peaks}.", "", made_by(result["provenance"])]
    return "\n".join(lines) + "\n"
