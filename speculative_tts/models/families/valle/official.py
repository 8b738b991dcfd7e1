"""The official decoding of lifeiteng/vall-e and 0nutation/USLM, step by step.

What golden checks need where the official code differs from `decoding`: in its sampler ties at the
top-k threshold are all kept, and torch's generator draws. It ends as soon as the end id is the most
likely, whatever was drawn: the distribution of `sampling.end_when_likeliest`. Greedy decoding is
the same here and there, and checked through both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.lm import ValleLM
from speculative_tts.models.families.valle.nar import LONGEST_PREFIX, ValleNAR

CODES_PER_TEXT_ID = 16
Sampler = Callable[[Tensor], int]
"""Logits [vocab] of one step to an id."""


@dataclass(frozen=True)
class Decoded:
    """codes: int64 [frames]; hidden [frames + 1, dim] and logits [frames + 1, vocab] by step."""

    codes: Tensor
    hidden: Tensor
    logits: Tensor


def filtered(logits: Tensor, top_k: int, top_p: float = 1.0) -> Tensor:
    """Logits [..., vocab] with -inf outside top-k (off below 1; ties kept) and top-p."""
    if top_k > 0:
        threshold = logits.topk(min(top_k, logits.shape[-1])).values[..., -1:]
        logits = logits.masked_fill(logits < threshold, float("-inf"))
    if top_p < 1.0:
        ranked, order = logits.sort(descending=True)
        mass = ranked.softmax(-1).cumsum(-1)
        removed = (mass > top_p).roll(1, -1)  # the first beyond the threshold stays
        removed[..., 0] = False
        logits = logits.masked_fill(removed.scatter(-1, order, removed), float("-inf"))
    return logits


def longest(config: ValleConfig, text_ids: Sequence[int]) -> int:
    """Codes after which decoding is cut: 16 a text id, and one more without a BOS."""
    return CODES_PER_TEXT_ID * len(text_ids) + (not config.prepend_bos)


def sampler(top_k: int, temperature: float, generator: torch.Generator | None = None) -> Sampler:
    """The official sampler: temperature, filter, multinomial; top_k 1 is greedy."""

    def draw(logits: Tensor) -> int:
        probs = filtered(logits / temperature, top_k).softmax(-1)
        return int(torch.multinomial(probs[None], 1, generator=generator))

    return draw


@torch.inference_mode()
def decode(lm: ValleLM, text_ids: Sequence[int], prompt: Sequence[int], draw: Sampler) -> Decoded:
    """Layer-1 codes of one utterance after a prompt's.

    Ends when the end id is the most likely or is drawn, or after the `longest` sequence. Raises
    ValueError when it ends at once ("well trained model shouldn't reach here").
    """
    end = lm.config.eos_id
    most = longest(lm.config, text_ids)
    row = lm.prompt(lm.merged(text_ids, prompt))
    cache = lm.cache(1, len(row) + most)
    codes: list[int] = []
    states = [lm.prefill_hidden([row], cache)]
    while True:
        logits = lm.logits(states[-1])[0]
        drawn = draw(logits)
        if int(logits.argmax()) == end or drawn == end or len(codes) == most:
            break
        start = torch.tensor([len(row) + len(codes)], device=lm.device)
        codes.append(drawn)
        ids = torch.tensor([[drawn]], device=lm.device)
        states.append(lm.extend_hidden(ids, cache, start)[:, -1])
    if not codes:
        raise ValueError("the model ends at its first step; train it longer or try another prompt")
    hidden = torch.cat(states)
    return Decoded(torch.tensor(codes), hidden, lm.logits(hidden))


def continual(nar: ValleNAR, text: Tensor, codes: Tensor, prefix_mode: int) -> Tensor:
    """The recorded first layer of the second half with its other layers predicted anew.

    text: int64 [1, length]; codes: int64 [1, frames, layers], whose first half (225 frames at most)
    is the prompt. The official code skips the audio prenet's place in mode 0; this does not.
    """
    prefix = min(codes.shape[1] // 2, LONGEST_PREFIX)
    mode = 0 if prefix_mode == 0 else 1  # here all phonemes are the utterance's own
    return nar.infer(text, codes[:, :prefix], codes[:, prefix:, 0], prefix_mode=mode)
