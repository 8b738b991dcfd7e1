"""Stand in for a codec that cannot be had: codes are kept, and audio is silence of their length.

The folder holds codes.json with n_codes, token_rate (codes per second) and sample_rate.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speculative_tts.codecs.audio import Wave
from speculative_tts.schema.fields import Count, Positive
from speculative_tts.typed import read_json, typed

FILE = "codes.json"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CodesOnly:
    """Hold the number of codes and how long each lasts; know no sound."""

    n_codes: Count
    token_rate: Positive
    sample_rate: Count
    n_layers = 1

    @classmethod
    def load(cls, folder: Path) -> "CodesOnly":
        """Read codes.json, and say that nothing will be heard."""
        path = folder / FILE
        codec = typed(cls, read_json(path, "give n_codes, token_rate and sample_rate"), path)
        logger.warning(
            "codec %s makes no audio: records.jsonl keeps the codes, waves are silence; decode "
            "them by the target's own codec, or add it to speculative_tts.codecs.registry.CODECS",
            folder,
        )
        return codec

    def encode(self, wave: Wave) -> np.ndarray:
        """Raise ValueError: recordings need the target's own codec."""
        raise ValueError(
            f"codec codes encodes no recording ({len(wave)} samples); leave prompt_audio out of "
            "the list, and give voice_codes or a speaker where the target wants them"
        )

    def decode(self, codes: np.ndarray) -> Wave:
        """Return silence as long as the codes."""
        return np.zeros(round(len(codes) / self.token_rate * self.sample_rate), dtype=np.float32)
