"""Transcribe with OpenAI's own Whisper package (SSD's judge, run as its paper ran it).

The same weights as `judges.whisper` in their first form, large-v3.pt (or a smaller size's, which
its name then says); greedy, English, the English normaliser that comes with the package. Long
audio goes in windows with timestamps, as there; its fallback to higher temperatures is off, so that
a second hearing gives the same words.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from speculative_tts.evaluation.audio import Wave
from speculative_tts.evaluation.judge import Measure
from speculative_tts.evaluation.judges.whisper import size_name
from speculative_tts.evaluation.local_model import LocalModel
from speculative_tts.evaluation.weights import PublishedModel, offline
from speculative_tts.evaluation.wer import Normaliser, Transcriber

FILE = "large-v3.pt"
SHA256 = "e5b1a55b89c1367dacf97e3e19bfd829a01529dbfdeefa8caeb59b3f1b81dadb"  # in its address
OTHERS = ("large-v2", "large-v1", "medium", "medium.en", "small", "small.en", "base", "base.en")
FILES = "|".join((FILE, *(f"{name}.pt" for name in (*OTHERS, "tiny", "tiny.en"))))
URL = f"https://openaipublic.azureedge.net/main/whisper/models/{SHA256}/{FILE}"


@dataclass(frozen=True)
class OpenaiWhisper(Transcriber, LocalModel):
    """Whisper of any size by openai-whisper; the preset's is large-v3."""

    published: ClassVar = PublishedModel(
        "openai_whisper",
        "openai-whisper-large-v3",
        (FILES,),
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

    @property
    def id(self) -> str:
        """The name of the file that is loaded, whose size `load` checks."""
        if self.folder is None:
            return super().id
        return f"openai-whisper-{self.published.weights(self.place).stem}"

    def normaliser(self) -> Normaliser:
        """Return the package's English normaliser: numbers, contractions, spelling."""
        normalise = offline("whisper.normalizers").EnglishTextNormalizer()
        return lambda text: str(normalise(text))

    def load(self) -> Measure:
        """Load the model as a function from a wave to its transcript."""
        library = offline("whisper")
        path = self.published.weights(self.place)
        model = library.load_model(str(path), device=self.device)
        check_size(path, model.dims)
        half = self.device == "cuda"

        def transcribe(wave: Wave) -> str:
            heard = model.transcribe(
                wave, language="en", task="transcribe", temperature=0.0, fp16=half, verbose=None
            )
            return str(heard["text"]).strip()

        return transcribe


def check_size(path: Path, dims: Any) -> None:
    """ValueError for a file whose weights are of another size than its name says."""
    sizes = (dims.n_audio_state, dims.n_audio_layer, dims.n_vocab, dims.n_mels)
    held = size_name(*sizes)
    if path.stem != held and not (path.stem.startswith(held) and held == "large"):
        raise ValueError(f"{path} holds Whisper {held}, not {path.stem}; rename it to {held}.pt")
