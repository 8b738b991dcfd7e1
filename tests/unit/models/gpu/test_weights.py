"""A GPU run has no use for the native step of CPUs."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from head_stubs import layer_tensors
from static_loops import moved

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter
from speculative_tts.decoding.loops.one_by_one import alone
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.models.gpu.triton_runtime import anywhere
from speculative_tts.models.heads import Heads, HeadTensors
from speculative_tts.models.recurrent import RecurrentLayer
from speculative_tts.native import library
from speculative_tts.provenance import provenance
from speculative_tts.schema.common import Device
from speculative_tts_benchmarks.coin import TossedSpeculation
from speculative_tts_benchmarks.gpu_limits import kernels_of
from speculative_tts_benchmarks.sizes import COSYVOICE2

CPU, META = torch.device("cpu"), torch.device("meta")
SHAPE = {"layers": 3, "hidden": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "intermediate": 64}
SMALL = replace(
    COSYVOICE2, config=replace(COSYVOICE2.config, vocab_size=400, **SHAPE), speech=300, draft=(0, 2)
)


class CompiledError(Exception):
    """The native step was asked for."""


@pytest.fixture(autouse=True)
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The native step cannot be had."""

    def refuse() -> None:
        raise CompiledError

    monkeypatch.setattr(library, "loaded", refuse)
    return


@pytest.mark.parametrize("triton", [False, True])
def test_a_gpu_run_compiles_no_native_step(*, triton: bool) -> None:
    """It took 12 s of g++, or without a compiler warned of several times slower decoding.

    Mended where weights were made, it was still compiled by the first loop, by a recurrent layer
    and by what is recorded of the machine.
    """
    target = SMALL.weights(torch.float32, 0).model(torch.float32, META)
    second = LMDrafter(SMALL.draft_of(target))
    layer = RecurrentLayer(moved(layer_tensors(32, 40), META), target.head, torch.float32)
    parts = Tolerance(0.0), SMALL.sampler, (), 2
    rounds = [
        TossedSpeculation(target, drafter, *parts, rate=0.5).looping()
        for drafter in (second, RecurrentDrafter(target, layer))
    ]
    asked = [Request("a", SMALL.prompt(target, 0), None, 9, 9, 0)]
    for spec in (alone(target, (), SMALL.sampler), *rounds):
        with anywhere() if triton else nullcontext():
            kernels_of(spec, asked)
    heads = Heads(HeadTensors(torch.zeros(2, 300, 32, device=META), None))
    assert heads(torch.zeros(1, 32, device=META)).shape == (1, 2, 300)


@pytest.mark.parametrize(
    "config",
    [
        SimpleNamespace(runtime=SimpleNamespace(device=Device.cuda)),
        SimpleNamespace(device=Device.cuda),
        SimpleNamespace(runtime=SimpleNamespace(device=Device.cpu), gpu=True),
    ],
    ids=["sst-decode", "training", "sst-bench gpu=true"],
)
def test_what_is_recorded_of_a_gpu_run_compiles_none(config: SimpleNamespace) -> None:
    assert provenance(config)["hardware"]["kernels"] is None


def test_a_cpus_run_does() -> None:
    """A control: what is refused above is what a CPU asks for."""
    with pytest.raises(CompiledError):
        SMALL.weights(torch.float32, 0).model(torch.float32, CPU)
    with pytest.raises(CompiledError):
        provenance(SimpleNamespace(runtime=SimpleNamespace(device=Device.cpu)))
