"""Limits of a GPU: memory, arithmetic, launches; of devices and sizes that are known."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from static_loops import moved
from test_sizes import SMALL

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter
from speculative_tts.decoding.loops.graphs import LoopSpec
from speculative_tts.decoding.loops.one_by_one import alone
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.models.gpu.triton_runtime import anywhere
from speculative_tts.native import library
from speculative_tts.schema.decode import Kernels
from speculative_tts_benchmarks import gpu_limits
from speculative_tts_benchmarks.coin import TossedSpeculation
from speculative_tts_benchmarks.sizes import COSYVOICE2, LLASA_1B, LLASA_8B, ModelSize

CPU, META = torch.device("cpu"), torch.device("meta")


def device(name: str, capability: tuple[int, int], processors: int, mhz: int) -> Any:
    major, minor = capability
    return SimpleNamespace(
        name=name, major=major, minor=minor, multi_processor_count=processors, clock_rate=mhz * 1000
    )


B, F = torch.bfloat16, torch.float32
SHEETS = [  # name, capability, multiprocessors, MHz, format, TFLOPS: NVIDIA's data sheets
    ("NVIDIA A100-SXM4-80GB", (8, 0), 108, 1410, B, 312),
    ("NVIDIA A100-SXM4-80GB", (8, 0), 108, 1410, F, 19.5),
    ("NVIDIA A40", (8, 6), 84, 1740, B, 149.7),
    ("NVIDIA GeForce RTX 3090", (8, 6), 82, 1695, B, 71),
    ("NVIDIA GeForce RTX 3090", (8, 6), 82, 1695, F, 35.6),
    ("NVIDIA L40S", (8, 9), 142, 2520, B, 362),
    ("NVIDIA GeForce RTX 4090", (8, 9), 128, 2520, B, 165.2),
    ("NVIDIA H100 80GB HBM3", (9, 0), 132, 1830, B, 989.4),
    ("NVIDIA H100 80GB HBM3", (9, 0), 132, 1980, F, 66.9),
]


@pytest.mark.parametrize(("name", "capability", "processors", "mhz", "dtype", "tflops"), SHEETS)
def test_peaks_are_those_of_data_sheets(
    name: str, capability: tuple[int, int], processors: int, mhz: int, dtype: torch.dtype,
    tflops: float,
) -> None:  # fmt: skip
    """Sheets differ in the clock. Matrix units of consumer cards have half the speed."""
    found = gpu_limits.peak(device(name, capability, processors, mhz), dtype)
    assert found is not None
    assert found / 1e12 == pytest.approx(tflops, rel=0.02)


def test_what_is_not_known_is_not_guessed() -> None:
    """A capability that came later, and a torch that does not tell the clock."""
    assert gpu_limits.peak(device("NVIDIA X", (13, 0), 100, 2000), torch.bfloat16) is None
    assert gpu_limits.peak(device("NVIDIA H100", (9, 0), 132, 0), torch.bfloat16) is None
    assert gpu_limits.kernels_per_second(CPU) is None


@pytest.mark.parametrize(
    ("size", "weights"),
    [  # of layers and head, by hand
        (COSYVOICE2, 24 * (2 * 896 * 64 * 16 + 3 * 896 * 4_864) + 6_564 * 896),
        (LLASA_1B, 16 * (2 * 2_048 * 64 * 40 + 3 * 2_048 * 8_192) + 65_537 * 2_048),
        (LLASA_8B, 7_247_761_408),
    ],
    ids=["cosyvoice2", "llasa_1b", "llasa_8b"],
)
def test_work_of_known_sizes(size: ModelSize, weights: int) -> None:
    """A step reads each weight once, and multiplies and adds with it once a row and position."""
    step = gpu_limits.work(size, 1, 0, 2)
    assert step == {"bytes_per_step": 2 * weights, "operations_per_step": 2 * weights}
    several = gpu_limits.work(size, 64, 0, 2)
    assert several["bytes_per_step"] == step["bytes_per_step"]
    assert several["operations_per_step"] == 64 * step["operations_per_step"]
    verified = gpu_limits.work(size, 1, 0, 2, 3, "draft")
    assert verified["operations_per_step"] > 4 * step["operations_per_step"]
    recurrent = gpu_limits.work(size, 1, 0, 2, 3, "recurrent")
    assert step["bytes_per_step"] < recurrent["bytes_per_step"] < verified["bytes_per_step"]
    longer = gpu_limits.work(size, 1, 100, 2)["operations_per_step"] - 2 * weights
    c = size.config
    assert longer == 4 * c.layers * c.heads * c.head_dim * 100


def test_bytes_are_those_of_the_models() -> None:
    """But for a final norm, and biases, which models count."""
    target = SMALL.make(torch.float32, CPU, 0)
    read = gpu_limits.work(SMALL, 1, 0, 4)["bytes_per_step"]
    assert read == pytest.approx(target.step_bytes, rel=0.02)
    both = gpu_limits.work(SMALL, 1, 0, 4, 1, "draft")["bytes_per_step"] - read
    assert both == pytest.approx(SMALL.draft_of(target).step_bytes, rel=0.02)


H100 = {"bytes_per_second": 3.35e12, "operations_per_second": 1e15, "kernels_per_second": 1e6}


def test_shares_of_each_limit() -> None:
    """200 steps of 4 rows in a second; a round counts as a step does."""
    row = {"tokens": 804, "batch": 4, "rounds": 0, "step_seconds": 1.0, "bytes_per_step": 3.35e9,
           "operations_per_step": 1e12, "kernels_per_step": 500}  # fmt: skip
    found = gpu_limits.shares(row, H100)
    assert found == pytest.approx({"memory": 0.2, "arithmetic": 0.2, "launches": 0.1})
    assert gpu_limits.shares(row | {"rounds": 400}, H100)["memory"] == pytest.approx(0.1)
    unknown = H100 | {"operations_per_second": None, "kernels_per_second": None}
    assert gpu_limits.shares(row, unknown) == {"memory": found["memory"], "arithmetic": None,
                                               "launches": None}  # fmt: skip
    text = " ".join(gpu_limits.described(H100) + gpu_limits.described(unknown))
    assert "3350 GB/s" in text
    assert "1000 TFLOPS" in text
    assert "1,000 kernels a millisecond" in text
    assert "not known" in text


def test_kernels_are_counted() -> None:
    """Five a layer and a norm; embedding, head and sampler are few more.

    Without numbers, where launches do nothing; torch's own operations are many more.
    """
    library.select(Kernels.torch)  # a GPU's weights are torch's
    made = SMALL.make(torch.float32, CPU, 0)
    recurrent = moved(RecurrentDrafter(made, SMALL.recurrent_of(made, torch.float32, 0)), META)
    target = moved(made, META)
    library.select(Kernels.auto)
    asked = [Request("a", SMALL.prompt(target, 0), None, 9, 9, 0)]
    step: LoopSpec[Any] = alone(target, (), SMALL.sampler)
    rounds = [
        TossedSpeculation(
            target, one, Tolerance(0.0), SMALL.sampler, (), 3, rate=0.8
        ).looping()
        for one in (recurrent, LMDrafter(SMALL.draft_of(target)))
    ]  # fmt: skip
    with anywhere():
        own, light, heavy = (gpu_limits.kernels_of(spec, asked) for spec in (step, *rounds))
    layers, few = SMALL.config.layers, range(3, 9)
    assert own - (5 * layers + 1) in few
    assert own < light < heavy
    assert heavy - light >= 3 * (5 * len(SMALL.draft) - 4)  # a recurrent layer has three kernels
    assert gpu_limits.kernels_of(step, asked) > 3 * own
