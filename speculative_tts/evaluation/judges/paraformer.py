"""Transcribe Chinese as seed-tts-eval does: Paraformer by FunASR, counted by characters.

Both texts are written with simplified characters, lose their punctuation and are split into single
characters, so the "WER" that this list's papers print is a character error rate. Latin letters keep
their case. The front end's dither (noise of one 16-bit step) is off: a second run gives the
same words. Source: run_wer.py of BytedanceSpeech/seed-tts-eval at 752f429.
"""

import io
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any, ClassVar

from speculative_tts.evaluation.audio import SAMPLE_RATE, Wave
from speculative_tts.evaluation.judge import Measure
from speculative_tts.evaluation.judges.seedtts import REMOVED
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.weights import PublishedModel, offline
from speculative_tts.evaluation.wer import Normaliser, Transcriber


@dataclass(frozen=True)
class Paraformer(Transcriber, LocalModel):
    """Paraformer-zh (SeACo, 8,404 tokens)."""

    published: ClassVar = PublishedModel(
        "paraformer",
        "paraformer-zh",
        ("config.yaml", "tokens.json", "am.mvn", "model.pt"),
        "hf download funasr/paraformer-zh --local-dir {folder}",
    )
    packages: ClassVar = {
        "funasr": "funasr",
        "kaldi_native_fbank": "kaldi-native-fbank",
        "zhconv_rs": "zhconv-rs",
        "torch": "torch",
    }
    decoding: ClassVar[dict[str, Any]] = {
        "engine": "funasr",
        "dither": 0.0,
        "normaliser": "seed-tts-eval, Chinese",
        "label": "Paraformer, characters, seed-tts-eval's normaliser (its figure is the mean WER)",
    }

    def normaliser(self) -> Normaliser:
        """Return a normaliser to simplified characters without punctuation, separated by spaces."""
        simplified = offline("zhconv_rs").zhconv
        return lambda text: " ".join("".join(simplified(text, "zh-cn").translate(REMOVED).split()))

    def load(self) -> Measure:
        """Load the model as a function from a wave to its transcript."""
        with redirect_stdout(io.StringIO()):  # it prints its version and ffmpeg's
            model = offline("funasr").AutoModel(
                model=str(self.folder),
                device=self.device,
                disable_update=True,
                disable_pbar=True,
                log_level="ERROR",
            )
        model.kwargs["frontend"].dither = 0.0

        def transcribe(wave: Wave) -> str:
            (result,) = model.generate(input=wave, fs=SAMPLE_RATE)
            return str(result["text"])

        return transcribe
