"""Time the engine on a GPU: models of real size, batches, CUDA graphs.

Weights are random; a coin sets how often a draft is accepted. Each row is printed and kept as soon
as it is measured, so a run that is cut short keeps what it had.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.bench.figures import ONE_PROCESS, grid
from speculative_tts.costs.timer import median_seconds
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter
from speculative_tts.decoding.loops.graphs import EAGER, Graphs, LoopSpec, cuda_graph
from speculative_tts.decoding.loops.observer import synchronise
from speculative_tts.decoding.loops.one_by_one import alone
from speculative_tts.decoding.loops.paying import Paying
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.files import write_atomic
from speculative_tts.native import library
from speculative_tts.provenance import provenance
from speculative_tts.reporting.origin import made_by
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.schema.decode import Kernels
from speculative_tts.typed import write_json
from speculative_tts_benchmarks import gpu_limits
from speculative_tts_benchmarks.coin import TossedSpeculation
from speculative_tts_benchmarks.sizes import SIZES, ModelSize

BATCHES = (1, 8, 64)
RATES = (0.6, 0.8, 0.865)  # acceptance rates; 0.865 emits 3.26 tokens a round of 3
EAGER_TOKENS = 30  # a row without graphs: its speed is the host's
SECONDS = 220.0  # after which no further row is begun
CPU = torch.device("cpu")
READ = 4 << 30  # bytes that the memory's speed is measured with: many times the cache
PARITY = "cosyvoice2"  # also run on the CPU, in float32
LAST = "llasa_1b"  # measured if there is time: between the other two


@dataclass(frozen=True)
class Case:
    """One row of the table: a system, a batch, and whether steps are captured."""

    batch: int
    rate: float | None = None  # of drafted tokens that pass; None: the target alone
    captured: bool = True
    recurrent: bool = False  # it drafts, not a second model
    paying: bool = False  # as runtime.speculate=paying decodes: the target alone where that wins

    @property
    def drafter(self) -> str:
        """Return what drafts, as `gpu_limits.work` calls it."""
        return "" if self.rate is None else "recurrent" if self.recurrent else "draft"


CASES = (
    *(Case(1, rate) for rate in (None, *RATES)),
    Case(1, RATES[-1], recurrent=True),
    *(Case(batch, rate) for batch in BATCHES[1:] for rate in (None, *RATES)),
    *(Case(batch, RATES[0], paying=True) for batch in BATCHES),
)
EAGER_CASES = (Case(1, captured=False), Case(1, RATES[1], captured=False))


def run_gpu(config: BenchConfig, out: Path) -> int:
    """Measure every size, print the table, keep it. ValueError without a GPU."""
    if not torch.cuda.is_available():
        raise ValueError(
            "gpu=true needs a GPU that torch can see; without one measure real sizes on the CPU "
            "by random=cosyvoice2"
        )
    device, deadline = torch.device("cuda"), time.monotonic() + SECONDS
    slug = re.sub(r"[^a-z0-9]+", "_", torch.cuda.get_device_name().lower()).strip("_")
    result: dict[str, Any] = {
        "sizes": {},
        "bytes_per_second": bandwidth(device),
        "operations_per_second": gpu_limits.peak(
            torch.cuda.get_device_properties(device), torch.bfloat16
        ),
        "kernels_per_second": gpu_limits.kernels_per_second(device),
        "lookahead": int(config.lookahead),
        "provenance": provenance(config),
    }

    def keep() -> None:
        write_json(out / f"gpu_{slug}.json", result)
        write_atomic(out / f"gpu_{slug}.md", table(result))

    for name, size in sorted(SIZES.items(), key=lambda one: one[0] == LAST):
        cases = CASES + (EAGER_CASES if name == PARITY else ())
        measured: dict[str, Any] = {"title": size.title, "rows": []}
        result["sizes"][name] = measured
        for row in rows(size, config, device, cases, deadline):
            measured["rows"].append(row)
            print(grid(cells(size.title, row, result), ())[0], flush=True)
            keep()
        if name == PARITY and time.monotonic() < deadline:
            result["parity"] = parity(size, config.seed, device)
    keep()
    print(table(result))
    return 0


def rows(
    size: ModelSize,
    config: BenchConfig,
    device: torch.device,
    cases: Sequence[Case],
    deadline: float,
) -> Iterator[dict[str, Any]]:
    """Measure one size in bfloat16, case by case, until the deadline (of `time.monotonic`)."""
    if time.monotonic() >= deadline:
        return
    dtype = torch.bfloat16
    target = size.make(dtype, device, config.seed)
    second = LMDrafter(size.draft_of(target))
    recurrent = RecurrentDrafter(target, size.recurrent_of(target, dtype, config.seed))
    for case in cases:
        if time.monotonic() >= deadline:
            return
        tokens = config.tokens if case.captured else min(config.tokens, EAGER_TOKENS)
        plain: LoopSpec[Any] = alone(target, (), size.sampler)
        spec = plain
        if case.rate is not None:
            drafter = recurrent if case.recurrent else second
            parts = (target, drafter, Tolerance(0.0), size.sampler, (), int(config.lookahead))
            spec = TossedSpeculation(*parts, rate=case.rate).looping()
        requests = [
            Request(str(row), size.prompt(target, row), None, tokens, tokens, 0)
            for row in range(case.batch)
        ]
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        graphs = Graphs(cuda_graph) if case.captured and device.type == "cuda" else EAGER
        if case.paying:
            spec = Paying(graphs).choose(spec, plain, requests)
        kernels = gpu_limits.kernels_of(spec, requests) if device.type == "cuda" else None
        drafter_of = case.drafter if spec is not plain else ""
        context, drafted = size.length + tokens / 2, int(config.lookahead) if drafter_of else 0
        row = {
            "batch": case.batch,
            "rate": case.rate,
            "captured": case.captured,
            "recurrent": case.recurrent,
            "paying": case.paying,
            **gpu_limits.work(size, case.batch, context, dtype.itemsize, drafted, drafter_of),
            "kernels_per_step": kernels,
            **timed(graphs, spec, requests, device),
        }
        if device.type == "cuda":
            row["peak_bytes"] = torch.cuda.max_memory_allocated()
        yield row


def timed(
    graphs: Graphs, spec: LoopSpec[Any], requests: list[Request], device: torch.device
) -> dict[str, Any]:
    """Decode a batch four times; seconds of prefill and of steps are the best of the last two.

    The first captures the step and tunes its tiles, the second captures the prefill.
    """
    seconds: list[tuple[float, float]] = []
    for _ in range(4):
        synchronise(device)
        clock = [time.perf_counter()]

        def note(clock: list[float] = clock) -> None:
            synchronise(device)
            clock.append(time.perf_counter())

        outcomes = graphs.decode(spec, requests, note)
        note()
        begin, loaded, end = clock
        seconds.append((loaded - begin, end - loaded))
    prefill, steps = min(seconds[2:], key=sum)
    return {
        "prefill_seconds": prefill,
        "step_seconds": steps,
        "tokens": sum(len(one.tokens) for one in outcomes),
        "rounds": sum(one.counts.rounds for one in outcomes),
    }


@torch.inference_mode()
def parity(size: ModelSize, seed: int, device: torch.device) -> dict[str, float]:
    """Return the mean total variation of next-token distributions from the CPU's in float32.

    By format, and in bfloat16 also by torch's kernels. float32 is that of torch: products are not
    rounded to TensorFloat-32.
    """
    codes = torch.arange(0, 160, 10)[None]

    def distributions(where: torch.device, dtype: torch.dtype) -> Tensor:
        model = size.make(dtype, where, seed)
        given = size.prompt(model, seed)
        cache = model.cache(1, len(given) + codes.shape[1])
        model.prefill([given], cache)
        start = torch.tensor([len(given)], device=where)
        found: Tensor = model.extend(codes.to(where), cache, start)[0].cpu().softmax(-1)
        return found

    exact = distributions(CPU, torch.float32)
    chosen, apart = library.chosen(), {}
    by_torch = {"bfloat16 by torch": (torch.bfloat16, Kernels.torch)}
    own = {"float32": (torch.float32, chosen), "bfloat16": (torch.bfloat16, chosen)}
    try:
        for name, (dtype, kernels) in (own | by_torch).items():
            library.select(kernels)
            found = distributions(device, dtype)
            apart[name] = float((found - exact).abs().sum(-1).mean()) / 2
    finally:
        library.select(chosen)
    return apart


def bandwidth(device: torch.device, size: int = READ) -> float:
    """Bytes a second that are read where the weights are: a sum, by the device's own clock."""
    data = torch.ones(size // 2, dtype=torch.bfloat16, device=device)
    if device.type != "cuda":
        return size / median_seconds(data.sum, 10)
    return size / min(event_seconds(data.sum) for _ in range(10))


def event_seconds(run: Callable[[], object]) -> float:
    """Seconds that the GPU takes for what `run` launches."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


COLUMNS = (
    "size", "graphs", "batch", "system", "tokens/s", "steps alone, tokens/s", "tokens a round",
    *(f"of the limit of {name}" for name in gpu_limits.LIMITS), "kernels", "prefill, ms",
    "peak, GiB",
)  # fmt: skip


def cells(title: str, row: dict[str, Any], limits: dict[str, Any]) -> list[object]:
    """Return one row of the table; "-" where a limit is not known."""
    drafts, seconds = row["rate"] is not None, row["prefill_seconds"] + row["step_seconds"]
    stepped = row["tokens"] - row["batch"]  # the prefill gives each its first
    drafter = "recurrent layer" if row["recurrent"] else "speculative"
    drafter += " where it pays" if row["paying"] else ""
    shares = gpu_limits.shares(row, limits).values()
    return [
        title,
        "on" if row["captured"] else "off",
        row["batch"],
        f"{drafter}, {row['rate']:g} pass (synthetic)" if drafts else "alone",
        f"{row['tokens'] / seconds:,.0f}",
        f"{stepped / row['step_seconds']:,.0f}",
        f"{stepped / row['rounds']:.2f}" if row["rounds"] else "",
        *("-" if share is None else f"{share:.1%}" for share in shares),
        row["kernels_per_step"] or "-",
        f"{row['prefill_seconds'] * 1e3:.1f}",
        f"{row['peak_bytes'] / 2**30:.1f}" if "peak_bytes" in row else "",
    ]


def table(result: dict[str, Any]) -> str:
    """Format the result for people."""
    measured: Iterable[dict[str, Any]] = result["sizes"].values()
    rows = [cells(size["title"], row, result) for size in measured for row in size["rows"]]
    lines = [ONE_PROCESS, "", *grid(COLUMNS, rows), ""]
    lines += [f"bfloat16, lookahead {result['lookahead']}, prefill included in tokens/s."]
    lines += gpu_limits.described(result)
    if "parity" in result:
        apart = ", ".join(f"{name} {value:.1g}" for name, value in result["parity"].items())
        lines += [f"Distributions beside the CPU's in float32, mean total variation: {apart}."]
    return "\n".join([*lines, "", made_by(result["provenance"])]) + "\n"
