"""Train a codec's postnet: from what codebooks say of a token and its neighbours to the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float32
from torch import nn

from speculative_tts.codecs.postnet import Postnet, places
from speculative_tts.codecs.tiny import TinyCodec, stack_frames
from speculative_tts.codecs.tiny_residual import ResidualTinyCodec
from speculative_tts.progress import progress

Made = TypeVar("Made", TinyCodec, ResidualTinyCodec)
Features = list[np.ndarray]  # of utterances, [frames, 27] each

Tokens = Float32[np.ndarray, "tokens size"]

UNITS = 512
BATCH = 2048  # tokens
LEARNING_RATE = 2e-3


def with_postnet(codec: Made, features: Features, steps: int, seed: int) -> Made:
    """The codec with a postnet that these utterances taught; without one for no steps."""
    if not steps:
        return codec
    return replace(codec, postnet=train_postnet(said_and_meant(codec, features), steps, seed))


def said_and_meant(codec: Made, features: Features) -> Iterator[tuple[Tokens, Tokens]]:
    """What the codes of each utterance say and what it was, by one layer, two, ... all of them."""
    for frames in features:
        codes, truth = codec.encode_features(frames), stack_frames(frames, codec.weights)
        for some in [codes] if codes.ndim == 1 else (codes[: n + 1] for n in range(len(codes))):
            yield codec.look_up(some).astype(np.float32), truth


def train_postnet(utterances: Iterable[tuple[Tokens, Tokens]], steps: int, seed: int) -> Postnet:
    """Least squares from utterances (what codes say, what was said), rounded to float16.

    Begins as no postnet: the last matrix is zero. The same seed gives the same postnet.
    """
    said, truth = zip(*utterances, strict=True)
    begins = np.cumsum([0, *map(len, said)])
    each = [begin + places(len(tokens)) for begin, tokens in zip(begins, said, strict=False)]
    given, wanted, heard = (torch.from_numpy(np.concatenate(p)) for p in (said, truth, each))
    size = given.shape[1]
    random = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inner, outer = nn.Linear(heard.shape[1] * size, UNITS), nn.Linear(UNITS, size)
    nn.init.zeros_(outer.weight)
    nn.init.zeros_(outer.bias)
    network = nn.Sequential(inner, nn.ReLU(), outer)
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps)
    for _ in progress(range(steps), desc="postnet"):
        some = torch.randint(len(given), (BATCH,), generator=random)
        better = given[some] + network(given[heard[some]].flatten(1))
        optimiser.zero_grad()
        (better - wanted[some]).square().mean().backward()
        optimiser.step()
        rates.step()
    learnt = (inner.weight, inner.bias, outer.weight, outer.bias)
    return Postnet(*(part.detach().half().float().numpy() for part in learnt))
