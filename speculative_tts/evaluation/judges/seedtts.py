"""seed-tts-eval's words in English: Whisper large-v3 and that project's own normaliser.

Its normaliser takes punctuation out (hyphens without a space) and writes small letters; numbers are
left, so "50" heard for "fifty" is an error: its published figures were made so (its issue 12). They
are means of utterances' rates: `wer_mean` here, not the corpus rate. Source: run_wer.py of
BytedanceSpeech/seed-tts-eval at 752f429.
"""

import string
from dataclasses import dataclass
from typing import Any, ClassVar

from speculative_tts.evaluation.judges.whisper import Whisper
from speculative_tts.evaluation.wer import Normaliser

CHINESE = (  # zhon's table of punctuation, which that project takes
    "＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､\u3000、〃〈〉《》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟"  # noqa: RUF001
    "〰〾〿–—‘’‛“”„‟…‧﹏﹑﹔·！？｡。"  # noqa: RUF001
)
REMOVED = str.maketrans("", "", (string.punctuation + CHINESE).replace("'", ""))


@dataclass(frozen=True)
class SeedTtsWhisper(Whisper):
    """Whisper as seed-tts-eval counts it."""

    one_numeral: ClassVar = False
    decoding: ClassVar[dict[str, Any]] = Whisper.decoding | {
        "label": "Whisper, greedy, seed-tts-eval's normaliser (its figure is the mean WER)",
    }

    @property
    def options(self) -> dict[str, Any]:
        """Those of Whisper, and this normaliser."""
        return super().options | {"normaliser": "seed-tts-eval, English"}

    def normaliser(self) -> Normaliser:
        """Punctuation but apostrophes out, small letters, single spaces."""
        return normalise


def normalise(text: str) -> str:
    """What both texts pass before they are compared."""
    return " ".join(text.translate(REMOVED).lower().split())
