"""What to hear of a tiny VALL-E while it trains: word errors on the development list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from speculative_tts.codecs.tiny import SAMPLES_PER_TOKEN
from speculative_tts.codecs.tiny_residual import ResidualTinyCodec
from speculative_tts.corpora.testset import ListRow, read_audio, read_list
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.valle.ar import ValleAR
from speculative_tts.models.valle.lm import ValleLM
from speculative_tts.models.valle.nar import ValleNAR
from speculative_tts.training.listening import WordRecogniser, word_errors
from speculative_tts.training.sampling import Sampling, transform
from speculative_tts.training.watch import Heard, error_rate


@dataclass(frozen=True)
class LayeredRow:
    """An evaluation row, its prompt as codes [layers, tokens], its reference's length in tokens."""

    row: ListRow
    prompt: Int64[Tensor, "layers tokens"]
    reference_tokens: int


@dataclass(frozen=True)
class ValleWatch:
    """Samples every row and has a recogniser listen; without a NAR to the first layer alone."""

    rows: list[LayeredRow]
    codec: ResidualTinyCodec
    layout: SpeechLayout
    sampling: Sampling
    seed: int

    @classmethod
    def load(
        cls,
        folder: Path,
        codec: ResidualTinyCodec,
        layout: SpeechLayout,
        sampling: Sampling,
        every: int,
        seed: int,
    ) -> ValleWatch:
        """Each `every`-th row of an evaluation list."""
        listed = read_list(folder)[::every]
        rows = [
            LayeredRow(
                row,
                torch.from_numpy(codec.encode(read_audio(folder / row.prompt_audio))),
                len(read_audio(folder / row.reference_audio)) // SAMPLES_PER_TOKEN,
            )
            for row in listed
        ]
        return cls(rows, codec, layout, sampling, seed)

    def __call__(self, ar: ValleAR, nar: ValleNAR | None = None) -> dict[str, float]:
        """Word error rate and share of runaway or cut-off utterances."""
        heard = self.listen(ar, nar)
        return {
            "dev_word_error_rate": error_rate(heard),
            "dev_bad_length": sum(h.bad_length for h in heard) / len(heard),
        }

    def listen(self, ar: ValleAR, nar: ValleNAR | None = None) -> list[Heard]:
        """What is heard of each row."""
        model = ValleLM(ar, layout=self.layout)
        prompts = [
            model.prompt(item.row.text, item.row.prompt_text, item.prompt[0]) for item in self.rows
        ]
        words = [len(item.row.text.split()) for item in self.rows]
        generator = torch.Generator().manual_seed(self.seed)
        outputs = sample_codes(model, prompts, words, self.sampling, generator)
        recogniser = WordRecogniser(self.layout.words)
        return [
            self._hear(recogniser, item, codes, nar)
            for item, codes in zip(self.rows, outputs, strict=True)
        ]

    def _hear(
        self,
        recogniser: WordRecogniser,
        item: LayeredRow,
        codes: list[int],
        nar: ValleNAR | None,
    ) -> Heard:
        layers = torch.tensor([codes])
        if nar is not None and codes:
            text = self.layout.text_ids(item.row.text, item.row.prompt_text)
            ids = torch.tensor([[self.layout.sos_id, *text, self.layout.task_id]])
            layers = nar.infer(ids, item.prompt.T[None], layers)[0].T
        hypothesis = recogniser(self.codec.decode(np.asarray(layers)))
        counted = word_errors(item.row.text.split(), hypothesis)
        return Heard(
            id=item.row.id,
            errors=counted.errors,
            words=counted.words,
            tokens=len(codes),
            reference_tokens=item.reference_tokens,
            hypothesis=" ".join(hypothesis),
        )


@torch.inference_mode()
def sample_codes(
    model: ValleLM,
    prompts: Sequence[Tensor],
    n_words: Sequence[int],
    sampling: Sampling,
    generator: torch.Generator,
) -> list[list[int]]:
    """Layer-1 codes of each prompt, without the end id; lengths bounded by `n_words`."""
    end = model.stop_ids[0]
    least = torch.tensor([sampling.min_tokens_per_word * n for n in n_words])
    most = torch.tensor([sampling.max_tokens_per_word * n for n in n_words])
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    limit = int(most.max())
    cache = model.cache(len(prompts), int(lengths.max()) + limit)
    logits = model.prefill(list(prompts), cache)
    done = torch.zeros(len(prompts), dtype=torch.bool)
    rows: list[Tensor] = []
    for step in range(limit):
        logits[step < least, end] = -torch.inf
        token = torch.multinomial(transform(logits, sampling), 1, generator=generator)[:, 0]
        token[done | (step >= most)] = end
        done |= token == end
        rows.append(token)
        if bool(done.all()):
            break
        logits = model.extend(token[:, None], cache, lengths + step)[:, 0]
    tokens: list[list[int]] = torch.stack(rows, 1).tolist()
    return [row[: row.index(end)] if end in row else row for row in tokens]
