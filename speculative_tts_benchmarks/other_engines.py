"""Time other engines on the same random weights: transformers, peers that a script registers."""

from collections.abc import Callable
from typing import Protocol

import torch

from speculative_tts.bench.engine import Decode
from speculative_tts.bench.huggingface import Transformers
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.training.checkpoint import build_model
from speculative_tts_benchmarks.sizes import ModelSize, RandomWeights


class Peer(Protocol):
    """Another engine that holds a model for batch 1."""

    def seconds(self, prompt: list[int], tokens: int, sampler: Sampler) -> float:
        """Return the seconds to continue a prompt by so many tokens."""


# weights, dtype, positions, threads
Making = Callable[[RandomWeights, torch.dtype, int, int], Peer]
PEERS: dict[str, Making] = {}  # for CPUs; `peers` registers llama.cpp and OpenVINO


def transformers_of(
    size: ModelSize, weights: RandomWeights, dtype: torch.dtype, device: torch.device
) -> Transformers:
    """Build transformers' target and draft from random weights."""
    both = (weights.checkpoint(), weights.some(size.draft).checkpoint())
    target, draft = (build_model(*one, dtype, device).train(mode=False) for one in both)
    return Transformers(target, draft, device)


def others(
    config: BenchConfig, size: ModelSize, weights: RandomWeights, device: torch.device
) -> dict[str, Decode]:
    """Return the other engines that decode these random weights on this device, by name."""
    dtype = getattr(torch, config.runtime.dtype.value)
    systems: dict[str, Decode] = {}
    if config.transformers:
        peer = transformers_of(size, weights, dtype, device)
        systems |= peer.systems(size.sampler, int(config.lookahead))
    context, threads = size.length + config.tokens + 1, config.runtime.threads
    for name, make in PEERS.items() if device.type == "cpu" else ():
        systems[name] = _continues(make(weights, dtype, context, threads), size.sampler)
    return systems


def _continues(peer: Peer, sampler: Sampler) -> Decode:
    return lambda prompt: peer.seconds(prompt.ids, prompt.tokens, sampler)
