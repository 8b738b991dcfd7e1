"""Run golden cases by this package's loops: logits along rows, samplers' laws, speculation."""

import numpy as np
import torch
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.drafter import CacheReader, Drafter
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.families.code_rows import RowLM
from speculative_tts.models.speech_lm import HiddenModel

CPU = torch.device("cpu")
LOOKAHEAD = 3


@torch.inference_mode()
def along(model: RowLM, rows: list[int], first: int, number: int) -> Tensor:
    """Return the logits after each of `number` rows from `first` on, [number, ids]."""
    cache = model.cache(1, len(rows))
    hidden = model.decoder.extend(model.prompt(rows)[None], cache, torch.zeros(1).long())
    return model.logits(hidden[0, first : first + number])


def drawn_from(sampler: Sampler, model: RowLM, rows: list[int], length: int, number: int) -> Tensor:
    """Return the distributions of `number` rows that a sampler draws after the first `length`."""
    before, after = model.speech_ids(rows[:length]), model.speech_ids(rows[length:])
    prompted = [tuple(sorted(set(before)))]
    stop = StopRule.build(model.layout.stop_ids, model.vocab_size, [0], CPU, prompted)
    logits = along(model, rows, length - 1, number)
    return sampler(logits[None], torch.tensor([after]), torch.arange(number)[None], stop)[0]


def expected_law(scores: np.ndarray, order: Tensor) -> Tensor:
    """Return the distributions of transformers' processed scores, of the ids in this order."""
    return torch.from_numpy(scores).softmax(-1)[:, order]


def sped(
    model: HiddenModel,
    drafter: Drafter | CacheReader,
    sampler: Sampler,
    stops: tuple[int, ...],
    requests: list[Request],
) -> list[Outcome]:
    """Decode by speculation with the exact rule."""
    return Speculation(model, drafter, Tolerance(0.0), sampler, stops, LOOKAHEAD).decode(requests)
