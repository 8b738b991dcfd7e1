"""Compare voices by ERes2Net (Chen et al., Interspeech 2023; SSD's judge), through modelscope.

The checkpoint is the one CosyVoice's authors name, trained on VoxCeleb at 16 kHz (revision v1.0.2);
other ERes2Net checkpoints give other values.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from speculative_tts.evaluation.audio import Wave
from speculative_tts.evaluation.judge import Measure
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.similarity import FLOOR, VoiceComparison, pad_short, to_numbers
from speculative_tts.evaluation.weights import PublishedModel, offline


@dataclass(frozen=True)
class Eres2Net(VoiceComparison, LocalModel):
    """ERes2Net embeddings of 192 numbers, from Kaldi filterbanks without their mean."""

    published: ClassVar = PublishedModel(
        "eres2net",
        "speech_eres2net_sv_en_voxceleb_16k",
        ("configuration.json", "pretrained_eres2net.ckpt"),
        "modelscope download --model iic/speech_eres2net_sv_en_voxceleb_16k --revision v1.0.2 "
        "--local_dir {folder}",
    )
    packages: ClassVar = {"modelscope": "modelscope[framework]", "torchaudio": "torchaudio"}
    decoding: ClassVar[dict[str, Any]] = {"engine": "modelscope", "floor": FLOOR}

    def load(self) -> Measure:
        """Load the model as a function from a wave to its embedding."""
        library = offline("modelscope.pipelines")
        device = "gpu" if self.device == "cuda" else self.device
        verify = library.pipeline("speaker-verification", model=str(self.folder), device=device)

        def embed(wave: Wave) -> list[float]:
            return to_numbers(verify([np.asarray(pad_short(wave))], output_emb=True)["embs"][0])

        return embed
