"""Transcribe with OpenAI's own Whisper package (SSD's judge, run as its paper ran it).

The same weights as `judges.whisper` in their first form, large-v3.pt; greedy, English, the English
normaliser that comes with the package. Long audio goes in windows with timestamps, as there; its
fallback to higher temperatures is off, so that a second hearing gives the same words.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from speculative_tts.evaluation.audio import Wave
from speculative_tts.evaluation.judge import Measure
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.weights import PublishedModel, offline
from speculative_tts.evaluation.wer import Normaliser, Transcriber

FILE = "large-v3.pt"
SHA256 = "e5b1a55b89c1367dacf97e3e19bfd829a01529dbfdeefa8caeb59b3f1b81dadb"  # in its address
URL = f"https://openaipublic.azureedge.net/main/whisper/models/{SHA256}/{FILE}"


@dataclass(frozen=True)
class OpenaiWhisper(Transcriber, LocalModel):
    """Whisper large-v3 by openai-whisper."""

    published: ClassVar = PublishedModel(
        "openai_whisper",
        "openai-whisper-large-v3",
        (FILE,),
        f"curl -L --create-dirs -o {{folder}}/{FILE} {URL}",
    )
    packages: ClassVar = {"whisper": "openai-whisper", "torch": "torch"}
    one_numeral: ClassVar = True
    decoding: ClassVar[dict[str, Any]] = {
        "engine": "openai-whisper",
        "language": "en",
        "task": "transcribe",
        "beam": 1,
        "sampling": False,
        "normaliser": "whisper English",
        "label": "OpenAI's Whisper, greedy, its English normaliser",
    }

    def normaliser(self) -> Normaliser:
        """Return the package's English normaliser: numbers, contractions, spelling."""
        normalise = offline("whisper.normalizers").EnglishTextNormalizer()
        return lambda text: str(normalise(text))

    def load(self) -> Measure:
        """Load the model as a function from a wave to its transcript."""
        assert self.folder is not None
        library = offline("whisper")
        model = library.load_model(str(self.folder / FILE), device=self.device)
        half = self.device == "cuda"

        def transcribe(wave: Wave) -> str:
            heard = model.transcribe(
                wave, language="en", task="transcribe", temperature=0.0, fp16=half, verbose=None
            )
            return str(heard["text"]).strip()

        return transcribe
