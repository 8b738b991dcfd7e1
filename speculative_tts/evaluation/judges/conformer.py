"""Transcribe with NeMo's Conformer-Transducer large (MTP's judge): greedy, letters only."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from speculative_tts.evaluation.audio import Wave
from speculative_tts.evaluation.judge import BatchJudge, Measures
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.weights import PublishedModel, offline
from speculative_tts.evaluation.wer import Transcriber


@dataclass(frozen=True)
class Conformer(Transcriber, BatchJudge, LocalModel):
    """A NeMo transducer over subwords, from its .nemo file."""

    published: ClassVar = PublishedModel(
        "conformer",
        "stt_en_conformer_transducer_large",
        ("stt_en_conformer_transducer_large.nemo",),
        "hf download nvidia/stt_en_conformer_transducer_large "
        "stt_en_conformer_transducer_large.nemo --local-dir {folder}",
        hub="nvidia/stt_en_conformer_transducer_large",
    )
    packages: ClassVar = {"nemo": "nemo_toolkit[asr]"}
    install: ClassVar = "pip install -c constraints.txt 'nemo_toolkit[asr]>=3'"
    decoding: ClassVar[dict[str, Any]] = {
        "engine": "nemo",
        "decoding": "greedy transducer, the checkpoint's own",
        "normaliser": "letters, digits and apostrophes",
        "label": "NeMo Conformer-Transducer large, greedy, letters",
    }

    def load_many(self) -> Measures:
        """Load the model as a function from waves to their transcripts."""
        library = offline("nemo.collections.asr.models")
        logging.getLogger("nemo_logger").setLevel(logging.ERROR)
        path = self.published.weights(self.place)
        model = library.EncDecRNNTBPEModel.restore_from(str(path), map_location=self.device)
        model = model.to(self.device).eval()
        return lambda waves: transcribe(model, waves)


def transcribe(model: Any, waves: Sequence[Wave]) -> list[str]:
    """Return transcripts; NeMo's versions return texts, hypotheses or (best, all)."""
    out = model.transcribe([*waves], batch_size=len(waves), verbose=False)
    best = out[0] if isinstance(out, tuple) else out
    return [str(getattr(one, "text", one)) for one in best]
