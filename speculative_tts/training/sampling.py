"""Batched sampling with transformers' model, for watching a target while it trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from speculative_tts.models.layout import SpeechLayout


@dataclass(frozen=True)
class Sampling:
    """A sampler and length limits; the defaults are the tiny target's."""

    temperature: float = 0.8
    top_k: int = 25
    top_p: float = 0.9
    min_tokens_per_word: float = 4.0
    max_tokens_per_word: float = 28.0


def transform(
    logits: Float[Tensor, "rows vocab"], sampling: Sampling
) -> Float[Tensor, "rows vocab"]:
    """Probabilities after temperature, then top-k, then top-p (of what top-k left)."""
    scaled = logits / sampling.temperature
    values, order = scaled.sort(dim=-1, descending=True)
    values[:, sampling.top_k :] = -torch.inf
    probs = values.softmax(dim=-1)
    outside = probs.cumsum(dim=-1) - probs >= sampling.top_p
    probs[outside] = 0.0
    probs = probs / probs.sum(dim=-1, keepdim=True)
    return torch.zeros_like(probs).scatter_(-1, order, probs)


@torch.inference_mode()
def sample_speech(
    model: Any,
    layout: SpeechLayout,
    inputs: list[list[int]],
    n_words: list[int],
    sampling: Sampling,
    generator: torch.Generator,
) -> list[list[int]]:
    """Speech codes of each input, without the stop id; lengths bounded by `n_words`."""
    ids, mask = _left_pad(inputs, layout)
    least = torch.tensor([sampling.min_tokens_per_word * n for n in n_words])
    most = torch.tensor([sampling.max_tokens_per_word * n for n in n_words])
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    rows: list[Tensor] = []
    done = torch.zeros(len(inputs), dtype=torch.bool)
    cache = None
    for step in range(int(most.max())):
        output = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache = output.past_key_values
        logits = output.logits[:, -1, : layout.speech_vocab_size].float()
        logits[step < least, layout.eos_id] = -torch.inf
        token = torch.multinomial(transform(logits, sampling), 1, generator=generator)
        token[done | (step >= most)] = layout.eos_id
        done |= token[:, 0] == layout.eos_id
        rows.append(token[:, 0])
        if bool(done.all()):
            break
        ids = token
        mask = torch.cat([mask, mask.new_ones(len(inputs), 1)], dim=1)
        positions = positions[:, -1:] + 1
    return _cut(torch.stack(rows, dim=1), layout.eos_id)


def _left_pad(
    inputs: list[list[int]], layout: SpeechLayout
) -> tuple[Int64[Tensor, "rows length"], Int64[Tensor, "rows length"]]:
    length = max(map(len, inputs))
    ids = torch.full((len(inputs), length), layout.eos_id)
    mask = torch.zeros_like(ids)
    for row, values in enumerate(inputs):
        ids[row, length - len(values) :] = torch.tensor(values)
        mask[row, length - len(values) :] = 1
    return ids, mask


def _cut(tokens: Int64[Tensor, "rows length"], eos_id: int) -> list[list[int]]:
    lists: list[list[int]] = tokens.tolist()
    return [row[: row.index(eos_id)] if eos_id in row else row for row in lists]
