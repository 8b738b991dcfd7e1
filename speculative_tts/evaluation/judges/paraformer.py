"""seed-tts-eval's words in Chinese: Paraformer by FunASR, counted by characters.

Both texts are written with simplified characters, lose their punctuation and are split into single
characters, so the "WER" that this list's papers print is a character error rate; Latin letters keep
their case. The front end's dither (noise of one 16-bit step) is off: a second hearing gives the
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
from speculative_tts.evaluation.weights import Published, offline
from speculative_tts.evaluation.wer import Normaliser, Transcriber


@dataclass(frozen=True)
class Paraformer(Transcriber, LocalModel):
    """Paraformer-zh (SeACo, 8,404 tokens)."""

    published: ClassVar = Published(
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
        """Simplified characters without punctuation, a space between any two."""
        simplified = offline("zhconv_rs").zhconv
        return lambda text: " ".join("".join(simplified(text, "zh-cn").translate(REMOVED).split()))

    def load(self) -> Measure:
        """A function from a wave to its transcript."""
        with redirect_stdout(io.StringIO()):  # it announces itself and ffmpeg
            model = offline("funasr").AutoModel(
                model=str(self.folder),
                device=self.device,
                disable_update=True,
                disable_pbar=True,
                log_level="ERROR",
            )
        model.kwargs["frontend"].dither = 0.0

        def transcribe(wave: Wave) -> str:
            (heard,) = model.generate(input=wave, fs=SAMPLE_RATE)
            return str(heard["text"])

        return transcribe
