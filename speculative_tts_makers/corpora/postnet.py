"""Train a codec's postnet: from a token's and its neighbours' decoded features to the true ones."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float32
from torch import nn

from speculative_tts.codecs.postnet import Postnet, neighbours
from speculative_tts.codecs.tiny import WorldCodec, stack_frames
from speculative_tts.progress import progress

AnyCodec = TypeVar("AnyCodec", bound=WorldCodec)
Features = list[np.ndarray]  # of utterances, [frames, 27] each

Tokens = Float32[np.ndarray, "tokens size"]

UNITS = 512
BATCH = 2048  # tokens
LEARNING_RATE = 2e-3


def with_postnet(codec: AnyCodec, features: Features, steps: int, seed: int) -> AnyCodec:
    """Return the codec with a postnet trained on these utterances, or unchanged for 0 steps."""
    if not steps:
        return codec
    return replace(codec, postnet=train_postnet(decoded_and_true(codec, features), steps, seed))


def decoded_and_true(codec: AnyCodec, features: Features) -> Iterator[tuple[Tokens, Tokens]]:
    """Yield each utterance's features as decoded from 1, 2, ... all layers, and the true ones."""
    for frames in features:
        codes, truth = codec.encode_features(frames), stack_frames(frames, codec.weights)
        for some in [codes] if codes.ndim == 1 else (codes[: n + 1] for n in range(len(codes))):
            yield codec.look_up(some).astype(np.float32), truth


def train_postnet(utterances: Iterable[tuple[Tokens, Tokens]], steps: int, seed: int) -> Postnet:
    """Fit a postnet by least squares to (decoded, true) features, rounded to float16.

    It starts as the identity: the last matrix is zero. The same seed gives the same postnet.
    """
    decoded, truth = zip(*utterances, strict=True)
    begins = np.cumsum([0, *map(len, decoded)])
    around = [begin + neighbours(len(one)) for begin, one in zip(begins, decoded, strict=False)]
    given, wanted, window = (torch.from_numpy(np.concatenate(p)) for p in (decoded, truth, around))
    size = given.shape[1]
    random = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inner, outer = nn.Linear(window.shape[1] * size, UNITS), nn.Linear(UNITS, size)
    nn.init.zeros_(outer.weight)
    nn.init.zeros_(outer.bias)
    network = nn.Sequential(inner, nn.ReLU(), outer)
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps)
    for _ in progress(range(steps), desc="postnet"):
        some = torch.randint(len(given), (BATCH,), generator=random)
        better = given[some] + network(given[window[some]].flatten(1))
        optimiser.zero_grad()
        (better - wanted[some]).square().mean().backward()
        optimiser.step()
        rates.step()
    learnt = (inner.weight, inner.bias, outer.weight, outer.bias)
    return Postnet(*(part.detach().half().float().numpy() for part in learnt))
