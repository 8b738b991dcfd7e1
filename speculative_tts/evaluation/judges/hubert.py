"""Transcribe with HuBERT-large, fine-tuned on LibriSpeech (PCG's judge): greedy CTC, letters only.

`facebook/hubert-large-ls960-ft` holds the same weights as torchaudio's HUBERT_ASR_LARGE.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from speculative_tts.evaluation.audio import SAMPLE_RATE, Wave
from speculative_tts.evaluation.judge import BatchJudge, Measures
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.weights import WEIGHTS, PublishedModel, offline
from speculative_tts.evaluation.wer import Transcriber
from speculative_tts.pretrained import AGAIN, read_pretrained


@dataclass(frozen=True)
class Hubert(Transcriber, BatchJudge, LocalModel):
    """HuBERT with a CTC head."""

    published: ClassVar = PublishedModel(
        "hubert",
        "hubert-large-ls960-ft",
        ("config.json", "preprocessor_config.json", "vocab.json", WEIGHTS),
        "hf download facebook/hubert-large-ls960-ft --local-dir {folder}",
        hub="facebook/hubert-large-ls960-ft",
    )
    decoding: ClassVar[dict[str, Any]] = {
        "engine": "transformers",
        "decoding": "greedy CTC",
        "dtype": "float32",
        "normaliser": "letters, digits and apostrophes",
        "label": "HuBERT-large, greedy CTC, letters",
    }

    def load_many(self) -> Measures:
        """Load the model as a function from waves to their transcripts."""
        import torch

        library = offline("transformers")

        processor = library.Wav2Vec2Processor.from_pretrained(self.place, local_files_only=True)
        model = read_pretrained(library.HubertForCTC, self.place, AGAIN, others=True)
        model = model.to(self.device).eval()

        @torch.inference_mode()
        def transcribe(waves: Sequence[Wave]) -> list[str]:
            inputs = processor(
                [*waves], sampling_rate=SAMPLE_RATE, return_tensors="pt", **padding(waves)
            )
            best = model(**inputs.to(self.device)).logits.argmax(-1)
            frames = model._get_feat_extract_output_lengths(torch.tensor([*map(len, waves)]))
            ids = [one[:count] for one, count in zip(best, frames.tolist(), strict=True)]
            return [str(text) for text in processor.batch_decode(ids)]

        if model.config.feat_extract_norm == "group":  # padding changes a wave's group norm
            return lambda waves: [transcribe([wave])[0] for wave in waves]
        return transcribe


def padding(waves: Sequence[Wave]) -> dict[str, bool]:
    """Return the front end's options that pad several waves and mask the padding."""
    return {"padding": True, "return_attention_mask": True} if len(waves) > 1 else {}
