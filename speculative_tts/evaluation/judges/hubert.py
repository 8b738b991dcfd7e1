"""Words heard by HuBERT-large, fine-tuned on LibriSpeech (PCG's judge): greedy CTC, letters only.

`facebook/hubert-large-ls960-ft` holds the same weights as torchaudio's HUBERT_ASR_LARGE.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from speculative_tts.evaluation.audio import SAMPLE_RATE, Wave
from speculative_tts.evaluation.judge import Measure
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.weights import WEIGHTS, Published, offline
from speculative_tts.evaluation.wer import Transcriber


@dataclass(frozen=True)
class Hubert(Transcriber, LocalModel):
    """HuBERT with a CTC head."""

    published: ClassVar = Published(
        "hubert",
        "hubert-large-ls960-ft",
        ("config.json", "preprocessor_config.json", "vocab.json", WEIGHTS),
        "hf download facebook/hubert-large-ls960-ft --local-dir {folder}",
        hub="facebook/hubert-large-ls960-ft",
    )
    packages: ClassVar = {"transformers": "transformers", "torch": "torch"}
    decoding: ClassVar[dict[str, Any]] = {
        "engine": "transformers",
        "decoding": "greedy CTC",
        "dtype": "float32",
        "normaliser": "letters, digits and apostrophes",
        "label": "HuBERT-large, greedy CTC, letters",
    }

    def load(self) -> Measure:
        """A function from a wave to its transcript."""
        import torch

        library = offline("transformers")

        processor = library.Wav2Vec2Processor.from_pretrained(self.folder, local_files_only=True)
        model = library.HubertForCTC.from_pretrained(self.folder, local_files_only=True)
        model = model.to(self.device).eval()

        @torch.inference_mode()
        def transcribe(wave: Wave) -> str:
            inputs = processor(wave, sampling_rate=SAMPLE_RATE, return_tensors="pt")
            logits = model(inputs.input_values.to(self.device)).logits
            (text,) = processor.batch_decode(logits.argmax(-1))
            return str(text)

        return transcribe
