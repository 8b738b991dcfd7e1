"""Initialise the tiny VALL-E: official shapes, and a start from which little training suffices.

VALL-E's absolute sine positions make it slow to learn to look a few places back, which everything
else builds on (rotary positions have it from the start). So some heads of the AR's first layer
begin by looking back; training may change them freely.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from speculative_tts.models.families.valle.checkpoint import Valle
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.modules import Attention
from speculative_tts.models.families.valle.nar import ValleNAR

EMBEDDING_SPREAD = 0.3
"""Spread of fresh embeddings; torch's 1 drowns positions and what the first layers add."""

LOOK_BACK_GAIN = 1.7
"""Gain of the looking heads' projections: about two thirds of the weight fall in place."""


def fresh_valle(config: ValleConfig, seed: int) -> Valle:
    """Build both models from a seed; all but one head of the AR's first layer look back."""
    torch.manual_seed(seed)
    valle = Valle.build(config)
    with torch.no_grad():
        for model in (valle.ar, valle.nar):
            for name, parameter in model.named_parameters():
                if "word_embeddings" in name:
                    parameter.mul_(EMBEDDING_SPREAD)
    attention = valle.ar.ar_decoder.layers[0].self_attn
    assert isinstance(attention, Attention)
    for head in range(config.heads - 1):
        look_back(attention, head, places=head + 1)
    return valle


@torch.no_grad()
def look_back(attention: Attention, head: int, places: int) -> None:
    """Set a head's query and key projections so that position t attends to t - places.

    Query and key are the fastest sines of the positions, the key's turned by `places`: their
    product is the sum of cos(w (t - s - places)) over frequencies w, largest at s = t - places.
    """
    dim = attention.in_proj_weight.shape[1]
    size = dim // attention.heads
    query = torch.zeros(size, dim)
    key = torch.zeros(size, dim)
    for pair in range(size // 2):
        sine, cosine = 2 * pair, 2 * pair + 1  # rows of the projection and dimensions of x alike
        turn = places * math.exp(-sine * math.log(10_000.0) / dim)
        query[sine, sine] = query[cosine, cosine] = 1.0
        key[sine, sine] = key[cosine, cosine] = math.cos(turn)
        key[sine, cosine], key[cosine, sine] = math.sin(turn), -math.sin(turn)
    first = head * size
    attention.in_proj_weight[first : first + size] = LOOK_BACK_GAIN * query
    attention.in_proj_weight[dim + first : dim + first + size] = LOOK_BACK_GAIN * key


@torch.no_grad()
def sound_alike(nar: ValleNAR, books: Float[Tensor, "layers codes features"], seed: int) -> None:
    """Initialise rows of codes that sound alike with similar values, in inputs and outputs.

    The rows are random projections of the codebook, so that the NAR knows from the start how codes
    sound, and not only which are the same.
    """
    generator = torch.Generator().manual_seed(seed)
    for layer, book in enumerate(books):
        centred = book - book.mean(0)
        rows = centred @ torch.randn(book.shape[1], nar.config.nar_dim, generator=generator)
        rows = rows * (EMBEDDING_SPREAD / rows.std())
        read = nar.get_parameter(f"nar_audio_embeddings.{layer}.word_embeddings.weight")
        read[: len(book)] = rows
        if layer > 0:
            nar.get_parameter(f"nar_predict_layers.{layer - 1}.weight").copy_(rows)
