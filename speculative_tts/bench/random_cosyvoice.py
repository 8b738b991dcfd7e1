"""Real-size models with random weights: what a target costs here, without its checkpoint.

Costs of steps are those of the real weights. How often a random draft is right is not: layers that
the draft lacks are made weak, so that it agrees with its target often enough for the loop to be
seen, and the acceptance is told beside the speed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from speculative_tts.costs.hours import QWEN
from speculative_tts.costs.layers import random_decoder
from speculative_tts.decoding.acceptance import AcceptanceRule
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops import autoregressive
from speculative_tts.decoding.observer import synchronise
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.ras import RepetitionAware
from speculative_tts.decoding.sampling import Sampler
from speculative_tts.decoding.speculation import Speculation
from speculative_tts.models.code_lm import CodeLM
from speculative_tts.models.config import DecoderConfig
from speculative_tts.models.cosyvoice import CosyVoiceLayout, with_layers
from speculative_tts.models.matrix import matrix
from speculative_tts.models.merged_vocab import MergedVocabLM

TEXT_ROWS, CODES = 151_936, 6_561
DRAFT_LAYERS = [0, 1, 18, 19, 20, 21, 22, 23]  # the paper's: lower 2 and upper 6 of 24
MISSING_SCALE = 0.1  # of what layers outside the draft add
SAMPLER = RepetitionAware(top_k=25, top_p=0.8, barred=(CODES,))
CONFIG = replace(QWEN, vocab_size=CODES + 3 + TEXT_ROWS + 2, max_positions=32_768, qkv_bias=True)


@dataclass(frozen=True)
class Run:
    """Seconds and outcome of one continuation."""

    seconds: float
    outcome: Outcome


def cosyvoice2(
    dtype: torch.dtype, device: torch.device, seed: int, config: DecoderConfig = CONFIG
) -> MergedVocabLM:
    """A CosyVoice 2 language model of 506 M random parameters (or of another configuration)."""
    generator = torch.Generator().manual_seed(seed)
    scales = [1.0 if i in DRAFT_LAYERS else MISSING_SCALE for i in range(config.layers)]
    decoder = random_decoder(config, scales, generator, dtype=dtype, device=device)
    speech = CODES + 3
    head = torch.randn(config.hidden, speech, generator=generator) * 2 / config.hidden**0.5
    embedding = torch.empty(config.vocab_size, config.hidden, dtype=dtype)
    embedding.normal_(generator=generator)
    return MergedVocabLM(
        decoder,
        _layout(config),
        embedding.to(device),
        matrix(head.to(device, dtype), torch.zeros(speech, dtype=dtype, device=device)),
    )


def draft_of(model: MergedVocabLM) -> MergedVocabLM:
    """The paper's layers of the target; it shares the target's memory."""
    return with_layers(model, DRAFT_LAYERS)


def _layout(config: DecoderConfig) -> CosyVoiceLayout:
    return CosyVoiceLayout(
        n_codes=CODES,
        stop_ids=(CODES, CODES + 1, CODES + 2),
        speech_vocab_size=CODES + 3,
        text_offset=CODES + 3,
        words=(),
        sos_id=config.vocab_size - 2,
        task_id=config.vocab_size - 1,
        token_rate=25.0,
        sample_rate=24_000,
        sampling={},
        end_id=CODES,
        fill_id=CODES + 2,
        barred_ids=(CODES,),
    )


def prompt(model: MergedVocabLM, seed: int, text: int = 50, speech: int = 75) -> Tensor:
    """A zero-shot prompt of random text and 3 s of random speech, embedded."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(0, TEXT_ROWS, (text,), generator=generator) + CODES + 3
    codes = torch.randint(0, CODES, (speech,), generator=generator)
    marks = torch.tensor([model.layout.sos_id, model.layout.task_id])
    rows = torch.cat([marks[:1], words, marks[1:], codes])
    rows = rows.clamp(max=model.decoder.config.vocab_size - 1)
    return model.embed(rows.to(model.device))


@dataclass(frozen=True)
class Use:
    """How random models of one kind are made and used."""

    title: str
    make: Callable[[torch.dtype, torch.device, int], Any]
    draft_of: Callable[[Any], Any]
    prompt: Callable[[Any, int], Tensor]
    sampler: Sampler


COSYVOICE2 = Use("CosyVoice 2", cosyvoice2, draft_of, prompt, SAMPLER)


def continue_prompts(
    target: CodeLM,
    draft: CodeLM,
    rule: AcceptanceRule,
    *,
    lookahead: int,
    tokens: int,
    count: int,
    seed: int,
    use: "Use | None" = None,
) -> dict[str, list[Run]]:
    """Continuations of `count` prompts by `tokens` tokens, alone and speculative, in turn."""
    use = use or COSYVOICE2
    stops: tuple[int, ...] = ()  # none: every continuation has its length
    drafter, runs = LMDrafter(draft), dict[str, list[Run]](autoregressive=[], speculative=[])
    speculation = Speculation(target, drafter, rule, use.sampler, stops, lookahead)
    for number in range(count + 1):  # the first is a warm-up
        request = Request(
            f"{number}", use.prompt(target, seed + number), None, tokens, tokens, seed
        )
        begin = time.perf_counter()
        (alone,) = autoregressive(target, stops, use.sampler, [request])
        synchronise(target.device)
        middle = time.perf_counter()
        (sped,) = speculation.decode([request])
        synchronise(target.device)
        end = time.perf_counter()
        if number:
            runs["autoregressive"].append(Run(middle - begin, alone))
            runs["speculative"].append(Run(end - middle, sped))
    return runs
