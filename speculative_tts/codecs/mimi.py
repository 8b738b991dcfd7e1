"""Provide Mimi (Kyutai) as it lies in a CSM checkpoint: the codec of its codes, 24 kHz.

transformers' MimiModel runs it, from `codec_config` of config.json and the tensors `codec_model.*`;
nothing is downloaded. A frame is one code of each codebook; code c of codebook k is k * size + c,
where `size` is CSM's `vocab_size`, a few ids more than Mimi has codes. A frame with one of those is
left out of the audio.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from speculative_tts.codecs.audio import Wave
from speculative_tts.codecs.snac import whole_frames
from speculative_tts.pretrained import read_part
from speculative_tts.schema.fields import Count
from speculative_tts.typed import read_json, typed

PREFIX = "codec_model."
REMEDY = "give codec.path=<folder of sesame/csm-1b>, or codec=csm_codes for codes without audio"


@dataclass(frozen=True)
class _MimiKeys:
    """The keys of CSM's config.json that are used here."""

    codec_config: dict[str, Any]
    num_codebooks: Count = 32
    vocab_size: Count = 2051


class MimiCodec:
    """Code waves as frames of codes in one row, int64 [tokens]."""

    n_layers = 1

    def __init__(self, model: Any, codebooks: int, size: int) -> None:
        self.model, self.codebooks, self.size = model, codebooks, size  # `size`: of a codebook
        self.n_codes = size * codebooks  # ids of all codebooks
        self.sample_rate = int(model.config.sampling_rate)  # of waves, in and out
        self.token_rate = float(model.config.frame_rate) * codebooks

    @classmethod
    def load(cls, folder: Path) -> "MimiCodec":
        """Read a CSM folder; raise ValueError for one without a whole Mimi in it."""
        from transformers import MimiModel

        where = folder / "config.json"
        stored = typed(_MimiKeys, read_json(where, REMEDY), where)
        model = read_part(MimiModel, stored.codec_config, folder, PREFIX, REMEDY)
        if model.config.num_quantizers != stored.num_codebooks:
            raise ValueError(
                f"{where}: Mimi has {model.config.num_quantizers} codebooks, CSM "
                f"{stored.num_codebooks}; {REMEDY}"
            )
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(model.float().to(device).eval(), stored.num_codebooks, stored.vocab_size)

    @torch.inference_mode()
    def encode(self, wave: Wave) -> np.ndarray:
        """Encode a mono wave to whole frames, the last one of what is left of it."""
        if not len(wave):
            return np.zeros(0, dtype=np.int64)
        samples = torch.from_numpy(np.asarray(wave, dtype=np.float32))
        found = self.model.encode(samples[None, None].to(self.model.device)).audio_codes[0]
        frames = found.T.cpu().numpy() + self.size * np.arange(self.codebooks)
        return np.asarray(frames.reshape(-1), dtype=np.int64)

    @torch.inference_mode()
    def decode(self, codes: np.ndarray) -> Wave:
        """Decode codes, int64 [tokens], to a wave; frames that are not whole are left out."""
        frames = whole_frames(codes, self.codebooks, self.size)
        frames = frames[(frames < self.model.config.codebook_size).all(1)]
        if not len(frames):
            return np.zeros(0, dtype=np.float32)
        fed = torch.from_numpy(frames.T.copy())[None].to(self.model.device)
        return np.asarray(self.model.decode(fed).audio_values[0, 0].float().cpu().numpy())
