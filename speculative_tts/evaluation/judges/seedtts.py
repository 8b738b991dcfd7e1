"""Transcribe English as seed-tts-eval does: Whisper large-v3 and that project's normaliser.

The normaliser removes punctuation (hyphens without a space) and lowers letters; numbers stay, so
"50" for "fifty" is an error, as in the project's published figures (its issue 12). Those are means
of utterances' rates: `wer_mean` here, not the corpus rate. Source: run_wer.py of
BytedanceSpeech/seed-tts-eval at 752f429.
"""

import string
from dataclasses import dataclass
from typing import Any, ClassVar

from speculative_tts.evaluation.judges.whisper import Whisper
from speculative_tts.evaluation.wer import Normaliser

CHINESE = (  # zhon's table of punctuation, which that project uses
    "＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､\u3000、〃〈〉《》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟"  # noqa: RUF001
    "〰〾〿–—‘’‛“”„‟…‧﹏﹑﹔·！？｡。"  # noqa: RUF001
)
REMOVED = str.maketrans("", "", (string.punctuation + CHINESE).replace("'", ""))


@dataclass(frozen=True)
class SeedTtsWhisper(Whisper):
    """Whisper with seed-tts-eval's normaliser."""

    one_numeral: ClassVar = False
    decoding: ClassVar[dict[str, Any]] = Whisper.decoding | {
        "label": "Whisper, greedy, seed-tts-eval's normaliser (its figure is the mean WER)",
    }

    @property
    def options(self) -> dict[str, Any]:
        """Whisper's options, and this normaliser."""
        return super().options | {"normaliser": "seed-tts-eval, English"}

    def normaliser(self) -> Normaliser:
        """Return the normaliser below."""
        return normalise


def normalise(text: str) -> str:
    """Remove punctuation but apostrophes, lower letters, leave single spaces."""
    return " ".join(text.translate(REMOVED).lower().split())
