"""What to watch while a target trains: does it follow its text, and can one hear that it does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.corpora.testset import ListRow, read_audio, read_list
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.training.listening import WordRecogniser, word_errors
from speculative_tts.training.sampling import Sampling, sample_speech

RUNAWAY_RATIO, CUT_OFF_RATIO = 1.6, 0.5
"""Against the reference's length, outside of which an utterance counts as a runaway or cut off."""


@dataclass(frozen=True)
class Watched:
    """One evaluation row with its audio as codes."""

    row: ListRow
    prompt: tuple[int, ...]
    reference: tuple[int, ...]


@dataclass(frozen=True)
class Heard:
    """One sampled utterance as recognised."""

    id: str
    errors: int
    words: int
    tokens: int
    reference_tokens: int
    hypothesis: str

    @property
    def bad_length(self) -> bool:
        """A runaway or cut-off utterance."""
        ratio = self.tokens / self.reference_tokens
        return not CUT_OFF_RATIO <= ratio <= RUNAWAY_RATIO


def load_watched(folder: Path, codec: TinyCodec, every: int = 1) -> list[Watched]:
    """Rows of an evaluation list (each `every`-th), encoded."""
    rows = read_list(folder)[::every]
    prompts = {r.prompt_audio: codec.encode(read_audio(folder / r.prompt_audio)) for r in rows}
    return [
        Watched(
            row,
            tuple(prompts[row.prompt_audio].tolist()),
            tuple(codec.encode(read_audio(folder / row.reference_audio)).tolist()),
        )
        for row in rows
    ]


@torch.inference_mode()
def text_gap(
    model: Any, layout: SpeechLayout, watched: list[Watched], seed: int
) -> tuple[float, float]:
    """(loss with the true text, loss with random words in its place), nats a token."""
    rng = np.random.default_rng(seed)
    totals, count = [0.0, 0.0], 0
    for item in watched:
        n_words = len(item.row.text.split())
        other = " ".join(str(word) for word in rng.choice(layout.words, size=n_words))
        targets = torch.tensor([*item.reference, layout.eos_id])
        count += len(targets)
        for index, text in enumerate((item.row.text, other)):
            ids = layout.prompt_ids(text, item.row.prompt_text, item.prompt)
            logits = model(
                input_ids=torch.tensor([[*ids, *item.reference]]), logits_to_keep=len(targets)
            ).logits[0]
            totals[index] += float(cross_entropy(logits, targets, reduction="sum"))
    return totals[0] / count, totals[1] / count


def listen(
    model: Any,
    layout: SpeechLayout,
    codec: TinyCodec,
    watched: list[Watched],
    sampling: Sampling,
    seed: int,
    batch_size: int = 64,
) -> list[Heard]:
    """Sample each row and recognise it."""
    recogniser = WordRecogniser(layout.words)
    generator = torch.Generator().manual_seed(seed)
    heard = []
    for first in range(0, len(watched), batch_size):
        batch = watched[first : first + batch_size]
        inputs = [
            layout.prompt_ids(item.row.text, item.row.prompt_text, item.prompt) for item in batch
        ]
        lengths = [len(item.row.text.split()) for item in batch]
        outputs = sample_speech(model, layout, inputs, lengths, sampling, generator)
        heard += [
            _hear(recogniser, codec, item, codes)
            for item, codes in zip(batch, outputs, strict=True)
        ]
    return heard


def _hear(recogniser: WordRecogniser, codec: TinyCodec, item: Watched, codes: list[int]) -> Heard:
    hypothesis = recogniser(codec.decode(np.array(codes, dtype=np.int64)))
    counted = word_errors(item.row.text.split(), hypothesis)
    return Heard(
        id=item.row.id,
        errors=counted.errors,
        words=counted.words,
        tokens=len(codes),
        reference_tokens=len(item.reference),
        hypothesis=" ".join(hypothesis),
    )


def error_rate(heard: list[Heard]) -> float:
    """Word errors over words, all utterances together."""
    return sum(h.errors for h in heard) / sum(h.words for h in heard)
