"""Compare voices by x-vectors: WavLM-base-plus with an x-vector head (MTP's likely judge).

The paper says "x-vector" only; its authors' earlier work uses this family (WavLM with a TDNN).
"""

from dataclasses import dataclass
from typing import ClassVar

from speculative_tts.evaluation.audio import SAMPLE_RATE, Wave
from speculative_tts.evaluation.judge import Measure
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.similarity import FLOOR, VoiceComparison, pad_short, to_numbers
from speculative_tts.evaluation.weights import WEIGHTS, PublishedModel, offline
from speculative_tts.pretrained import AGAIN, read_pretrained


@dataclass(frozen=True)
class XVector(VoiceComparison, LocalModel):
    """WavLM with an x-vector head, embeddings of 512 numbers."""

    published: ClassVar = PublishedModel(
        "xvector",
        "wavlm-base-plus-sv",
        ("config.json", "preprocessor_config.json", WEIGHTS),
        "hf download microsoft/wavlm-base-plus-sv --local-dir {folder}",
        hub="microsoft/wavlm-base-plus-sv",
    )
    decoding: ClassVar = {"engine": "transformers", "dtype": "float32", "floor": FLOOR}

    def load(self) -> Measure:
        """Load the model as a function from a wave to its embedding."""
        import torch

        library = offline("transformers")

        front_end = library.AutoFeatureExtractor.from_pretrained(self.place, local_files_only=True)
        model = read_pretrained(library.WavLMForXVector, self.place, AGAIN, others=True)
        model = model.to(self.device).eval()

        @torch.inference_mode()
        def embed(wave: Wave) -> list[float]:
            inputs = front_end(pad_short(wave), sampling_rate=SAMPLE_RATE, return_tensors="pt")
            return to_numbers(model(inputs.input_values.to(self.device)).embeddings[0].cpu())

        return embed
