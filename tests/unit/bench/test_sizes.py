"""Random weights of published sizes, here shrunken: what is decoded, and that others compute it."""

import dataclasses

import pytest
import torch

from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts_benchmarks import sizes
from speculative_tts_benchmarks.other_engines import transformers_of
from speculative_tts_benchmarks.peer_llama_cpp import LlamaCpp
from speculative_tts_benchmarks.peer_openvino import OpenVino
from speculative_tts_benchmarks.sizes import ModelSize

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("kernels")


def shrunken(size: ModelSize, **shape: int) -> ModelSize:
    small = {"hidden": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "intermediate": 64} | shape
    few = {"vocab_size": 400, "layers": max(size.draft) + 1}
    config = dataclasses.replace(size.config, **small | few)
    return dataclasses.replace(size, config=config, speech=300, codes=297, length=30)


SMALL = shrunken(sizes.COSYVOICE2)
BOTH = pytest.mark.parametrize(
    "size", [SMALL, shrunken(sizes.LLASA_1B)], ids=["cosyvoice2", "llasa"]
)


@BOTH
def test_a_draft_has_the_targets_own_layers(size: ModelSize) -> None:
    target = size.make(torch.float32, CPU, 0)
    draft = size.draft_of(target)
    assert draft.decoder.layers[-1] is target.decoder.layers[size.draft[-1]]
    assert target.vocab_size == draft.vocab_size == 300
    layers = {id(layer.qkv) for layer in target.decoder.layers}
    assert len(layers) == size.config.layers  # copies, not one layer


def ours(size: ModelSize, ids: list[int]) -> torch.Tensor:
    model = size.make(torch.float32, CPU, 0)
    cache = model.cache(1, len(ids))
    return model.prefill([model.embed(torch.tensor(ids))], cache)[0]


def far(size: ModelSize) -> list[int]:
    """So many positions that a wrong RoPE scaling shows."""
    return dataclasses.replace(size, length=200).ids(1)


@BOTH
def test_transformers_computes_the_same(size: ModelSize) -> None:
    ids = far(size)
    peer = transformers_of(size, size.weights(torch.float32, 0), torch.float32, CPU)
    with torch.inference_mode():
        theirs = peer.target(torch.tensor([ids])).logits[0, -1]
    assert (theirs - ours(size, ids)).abs().max() < 1e-4


@BOTH
def test_llama_cpp_computes_the_same(size: ModelSize) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    ids = far(size)
    peer = LlamaCpp(size.weights(torch.float32, 0), torch.float32, 256, 1)
    apart = (peer.logits(ids) - ours(size, ids)).abs().max()
    assert apart < 0.02  # keys and values are float16 there
    assert peer.seconds(ids[:20], 5, Sampler(0.8, 25, 0.8)) > 0


@BOTH
def test_openvino_computes_the_same(size: ModelSize) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    ids = far(size)
    peer = OpenVino(size.weights(torch.float32, 0), torch.float32, 1)
    for _ in range(2):  # its state is forgotten in between
        assert (peer.logits(ids) - ours(size, ids)).abs().max() < 1e-4
    peer.logits(ids[:-1])
    last = peer.step(ids[-1:], len(ids) - 1)
    assert (last - ours(size, ids)).abs().max() < 1e-4
    assert peer.seconds(ids[:20], 5, Sampler(0.8, 25, 0.8)) > 0
