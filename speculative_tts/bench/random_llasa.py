"""LLaSA-1B's sizes with random weights and a cut head: what its steps cost without the checkpoint.

As in `bench.random_cosyvoice`, layers that the draft lacks are weak, so that it is sometimes right.
"""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from speculative_tts.bench.random_cosyvoice import MISSING_SCALE, Use
from speculative_tts.costs.layers import random_decoder
from speculative_tts.decoding.sampling import Sampler
from speculative_tts.models.code_lm import CodeLM
from speculative_tts.models.config import DecoderConfig, RopeScaling
from speculative_tts.models.decoder import Decoder
from speculative_tts.models.matrix import matrix

CODES = 65_536
SPEECH = CODES + 1  # with the end of speech
TEXT_ROWS = 1_024  # enough for prompts; a look-up costs the same in a larger table
SAMPLER = Sampler(0.8, 50, 1.0)  # the model card's
DRAFT_LAYERS = [0, 7, 15]  # PCG drafts with 3 of the 8B's 32 layers
CONFIG = DecoderConfig(
    layers=16,
    hidden=2_048,
    heads=32,
    kv_heads=8,
    head_dim=64,
    intermediate=8_192,
    vocab_size=SPEECH + TEXT_ROWS,
    norm_eps=1e-5,
    rope_theta=500_000.0,
    rope_scaling=RopeScaling(32.0, 1.0, 4.0, 8_192),
    max_positions=131_072,
    tied=True,
)


def llasa_1b(
    dtype: torch.dtype, device: torch.device, seed: int, config: DecoderConfig = CONFIG
) -> CodeLM:
    """A LLaSA-1B of random parameters (or of another configuration), head cut to speech rows."""
    generator = torch.Generator().manual_seed(seed)
    scales = [1.0 if i in DRAFT_LAYERS else MISSING_SCALE for i in range(config.layers)]
    decoder = random_decoder(config, scales, generator, dtype=dtype, device=device)
    embedding = torch.empty(config.vocab_size, config.hidden, dtype=dtype)
    embedding.normal_(generator=generator)
    head = (embedding[:SPEECH] * (2 / config.hidden**0.5)).T
    return CodeLM(decoder, embedding.to(device), matrix(head.to(device)))


def draft_of(model: CodeLM) -> CodeLM:
    """Three layers of the target; it shares the target's memory."""
    layers = [model.decoder.layers[index] for index in DRAFT_LAYERS]
    config = replace(model.decoder.config, layers=len(layers))
    return CodeLM(
        Decoder(config, layers, model.decoder.norm),
        model.embed(torch.arange(model.decoder.config.vocab_size, device=model.device)),
        model.head,
    )


def prompt(model: CodeLM, seed: int, text: int = 110, speech: int = 150) -> Tensor:
    """A cloning prompt of random text and 3 s of random speech, embedded."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(SPEECH, SPEECH + TEXT_ROWS, (text,), generator=generator)
    codes = torch.randint(0, CODES, (speech,), generator=generator)
    return model.embed(torch.cat([words, codes]).to(model.device))


LLASA_1B = Use("LLaSA-1B, head cut to speech rows", llasa_1b, draft_of, prompt, SAMPLER)
LLASA_8B = replace(
    LLASA_1B,
    title="LLaSA-8B, head cut to speech rows",
    make=partial(
        llasa_1b,
        config=replace(CONFIG, layers=32, hidden=4_096, head_dim=128, intermediate=14_336),
    ),
)
