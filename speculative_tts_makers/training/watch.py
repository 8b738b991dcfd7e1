"""Evaluate a target while it trains: does it follow its text, by loss and by a recogniser?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn.functional import cross_entropy

from speculative_tts.codecs.tiny import WorldCodec
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.evaluation.judges.pocketsphinx import load_recogniser
from speculative_tts.evaluation.wer import word_edits
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.prompt import Prompt, first_layer
from speculative_tts.models.speech_lm import Refiner, SpeechLM
from speculative_tts_makers.corpora.testset import ListRow, read_audio, read_list

RUNAWAY_RATIO, CUT_OFF_RATIO = 1.6, 0.5
"""Length over the reference's, beyond which an utterance counts as a runaway or as cut off."""


@dataclass(frozen=True)
class TinySampling:
    """Sampler settings in a target's speech.json; the defaults are the tiny targets'."""

    temperature: float = 0.8
    top_k: int = 25
    top_p: float = 0.9
    min_tokens_per_word: float = 4.0
    max_tokens_per_word: float = 28.0


@dataclass(frozen=True)
class Watched:
    """One row of the evaluation list, its prompt, and its reference as codes."""

    row: ListRow
    prompt: Prompt
    reference: Int64[Tensor, "*layers tokens"]


@dataclass(frozen=True)
class Watch:
    """Score and sample every row of an evaluation list, and run a recogniser on the result."""

    rows: list[Watched]
    codec: WorldCodec
    layout: SpeechLayout
    sampling: TinySampling
    seed: int

    @classmethod
    def load(
        cls,
        folder: Path,
        codec: WorldCodec,
        layout: SpeechLayout,
        sampling: TinySampling,
        every: int,
        seed: int,
    ) -> Watch:
        """Load each `every`-th row of an evaluation list."""

        def encoded(name: str) -> Tensor:
            return torch.from_numpy(codec.encode(read_audio(folder / name)))

        rows = [
            Watched(
                row,
                Prompt(row.text, row.prompt_text, encoded(row.prompt_audio)),
                encoded(row.reference_audio),
            )
            for row in read_list(folder)[::every]
        ]
        return cls(rows, codec, layout, sampling, seed)

    def __call__(self, model: SpeechLM, refiner: Refiner | None = None) -> dict[str, float]:
        """Return losses with the true and a random text, word error rate, share of odd lengths.

        Losses are in nats a token. `refiner` fills the further layers of a codec that has them.
        """
        samples = self.sample(model)
        true, other = self.text_gap(model)
        return {
            "dev_loss": true,
            "dev_loss_random_text": other,
            "dev_word_error_rate": self._errors(samples, refiner),
            "dev_bad_length": sum(map(_has_bad_length, samples, self.rows)) / len(self.rows),
        }

    def sample(self, model: SpeechLM) -> list[list[int]]:
        """Sample the first layer's codes of each row."""
        requests = [self._request(model, item) for item in self.rows]
        sampling = Sampler(self.sampling.temperature, self.sampling.top_k, self.sampling.top_p)
        outcomes = autoregressive(model, self.layout.stop_ids, sampling, requests)
        return [[t for t in outcome.tokens if t < self.layout.n_codes] for outcome in outcomes]

    def _request(self, model: SpeechLM, item: Watched) -> Request:
        row, sampling = item.row, self.sampling
        prompt = model.prompt(model.prompt_ids(item.prompt))
        fewest, most = self.layout.limits(
            row.text, len(prompt), sampling.min_tokens_per_word, sampling.max_tokens_per_word
        )
        return Request(row.id, prompt, None, fewest, most, self.seed)

    @torch.inference_mode()
    def text_gap(self, model: SpeechLM) -> tuple[float, float]:
        """Return the losses with the true text and with random words instead, nats a token."""
        rng = np.random.default_rng(self.seed)
        totals, count = [0.0, 0.0], 0
        for item in self.rows:
            reference = first_layer(item.reference)
            targets = torch.cat([reference, torch.tensor(self.layout.stop_ids[:1])])
            count += len(targets)
            words = rng.choice(self.layout.words, size=len(item.row.text.split()))
            other = replace(item.prompt, text=" ".join(map(str, words)))
            for index, text in enumerate((item.prompt, other)):
                prompt = model.prompt(model.prompt_ids(text))
                start = torch.tensor([len(prompt)])
                cache = model.cache(1, len(prompt) + len(reference))
                first = model.prefill([prompt], cache)
                logits = torch.cat([first, model.extend(reference[None], cache, start)[0]])
                totals[index] += float(cross_entropy(logits, targets, reduction="sum"))
        return totals[0] / count, totals[1] / count

    def _errors(self, samples: list[list[int]], refiner: Refiner | None) -> float:
        """Return word errors over words, all rows together."""
        recognise = load_recogniser("words", self.layout.words)
        errors, words = 0, 0
        for item, first in zip(self.rows, samples, strict=True):
            row, codes = item.row, torch.tensor(first, dtype=torch.int64)
            if refiner is not None:
                codes = refiner(item.prompt, first)
            edits = word_edits(row.text, recognise(self.codec.decode(codes.numpy())))
            errors += edits["substitutions"] + edits["deletions"] + edits["insertions"]
            words += edits["words"]
        return errors / words


def _has_bad_length(sample: list[int], item: Watched) -> bool:
    """Return True for a runaway or cut-off utterance."""
    return not CUT_OFF_RATIO <= len(sample) / item.reference.shape[-1] <= RUNAWAY_RATIO
