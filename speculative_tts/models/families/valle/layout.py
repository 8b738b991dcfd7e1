"""Layout of a VALL-E folder's ids: words, or the phonemes that official checkpoints read."""

from dataclasses import dataclass
from pathlib import Path

from speculative_tts.models.families.valle.text import Symbols, phonemes
from speculative_tts.models.layout import FILE, SpeechLayout
from speculative_tts.typed import read_json


@dataclass(frozen=True)
class PhonemeLayout(SpeechLayout):
    """`words` are the symbols of phonemes, and lengths are counted in them."""

    phonemes: str = "en-us"  # espeak's language

    def text_ids(self, text: str, prompt_text: str = "") -> list[int]:
        """Ids of the phonemes of both texts, spoken as one.

        Raises ValueError naming phonemes without an id, or when there is nothing to say.
        """
        if not text.strip():
            raise ValueError("the text is empty; give something to say")
        found = phonemes(f"{prompt_text} {text}".strip(), self.phonemes)
        return Symbols.of(self.words).encode(found)[1:-1]

    def text_length(self, text: str) -> int:
        """Phonemes of a text."""
        return len(self.text_ids(text))


def read_layout(folder: Path) -> SpeechLayout:
    """speech.json of a VALL-E folder. ValueError says what is wrong with it."""
    phonemes = "phonemes" in read_json(folder / FILE)
    return (PhonemeLayout if phonemes else SpeechLayout).from_folder(folder)
