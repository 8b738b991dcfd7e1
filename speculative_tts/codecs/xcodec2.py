"""Provide X-Codec2, the codec of LLaSA: 65,536 codes, 50 per second, 16 kHz.

transformers' Xcodec2Model runs it, from the checkpoint `HKUSTAudio/xcodec2-hf` (config.json,
model.safetensors); nothing is downloaded. The official feature extractor needs torchaudio; the same
features are computed here by transformers' own filter bank. It runs on a GPU if torch finds one:
audio is made outside all timings.
"""

import math
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from speculative_tts.codecs import fsq
from speculative_tts.codecs.audio import Wave, check_codes
from speculative_tts.codecs.pieces import Window, Windowed
from speculative_tts.pretrained import read_pretrained
from speculative_tts.typed import read_json

INPUT_RATE = 16_000
HOP = 320  # input samples per code
FRAME, SHIFT, FFT, BANDS = 400, 160, 512, 80  # of the filter bank, in samples
STRIDE = 2  # filter bank frames per code
# The decoder's attention sees everything: pieces only nearly equal the whole utterance's samples.
# 3 s before a piece as in issue 28 of its repository; 0.2 s ahead, 10 ms of fade.
WINDOW = Window(ahead=10, chunk=25, back=150, fade=HOP // 2)


class Xcodec2:
    """A loaded model; a code is eight digits of four levels (`codecs.fsq`)."""

    n_layers = 1
    sample_rate = INPUT_RATE  # of waves, in and out
    token_rate = INPUT_RATE / HOP
    margin = HOP // 2  # zeros around the wave before the filter bank
    model_class, model_type = "Xcodec2Model", "xcodec2"
    download = "HKUSTAudio/xcodec2-hf"

    def __init__(self, model: Any) -> None:
        self.model = model
        self.levels = tuple(model.config.quantization_levels)  # of each dimension
        self.n_codes = math.prod(self.levels)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a local checkpoint folder; raise ValueError saying what was looked for."""
        return cls(read_model(folder, cls.model_class, cls.model_type, cls.download))

    @cached_property
    def codebook(self) -> np.ndarray:
        """Values of every code: float32 [n_codes, dimensions]."""
        return fsq.values(np.arange(self.n_codes), self.levels)

    @torch.inference_mode()
    def encode(self, wave: Wave) -> np.ndarray:
        """Encode a mono wave: a code for each begun 20 ms, and one more for a whole number."""
        samples = torch.from_numpy(self._input(wave))
        padded = torch.nn.functional.pad(samples, (0, HOP - len(samples) % HOP))
        features = semantic_features(padded.numpy(), self.margin)
        device = self.model.device
        encoded = self.model.encode(
            padded[None, None].to(device), torch.from_numpy(features)[None].to(device)
        )
        return np.asarray(encoded.audio_codes[0, 0].cpu().numpy().astype(np.int64))

    @torch.inference_mode()
    def decode(self, codes: np.ndarray) -> Wave:
        """Decode codes, int64 [tokens], to a wave."""
        if len(codes) == 0:
            return np.zeros(0, dtype=np.float32)
        check_codes(codes, self.n_codes)
        ids = torch.from_numpy(codes)[None, None].to(self.model.device)
        values = self.model.decode(audio_codes=ids).audio_values
        return np.asarray(values[0, 0].float().cpu().numpy())

    def encode_prompt(self, wave: Wave) -> np.ndarray:
        """Encode a prompt, whose codes are all that `decode_as` needs."""
        return self.encode(wave)

    def decode_as(self, codes: np.ndarray, prompt_codes: np.ndarray) -> Wave:
        """Decode codes, int64 [tokens], after the prompt's codes.

        LLaSA's model card does the same and then cuts the prompt off: the decoder looks both ways,
        so that without a prompt the speech begins in another way. The cut here is at the first new
        code; the card's, at the length of the prompt's recording, leaves up to 20 ms before it.
        """
        whole = self.decode(np.concatenate([prompt_codes, codes]))
        return whole[len(whole) // (len(prompt_codes) + len(codes)) * len(prompt_codes) :]

    def speaking(self, prompt_codes: np.ndarray, chunk: int | None = None) -> Windowed:
        """Start an utterance in pieces, decoded after its prompt."""
        return Windowed(self.decode, WINDOW, chunk, prompt_codes)

    def _input(self, wave: Wave) -> Wave:
        """Return the wave at the encoder's rate."""
        return wave


def read_model(folder: Path, name: str, model_type: str, download: str) -> Any:
    """Load a transformers codec in float32 from a local folder; say in one line what is missing."""
    import transformers

    if not hasattr(transformers, name):
        raise ImportError(
            f"transformers {transformers.__version__} has no {name}; pip install -U transformers"
        )
    path = folder / "config.json"
    kind = read_json(path).get("model_type") if path.is_file() else ""
    if kind != model_type or not any(folder.glob("*.safetensors")):
        raise ValueError(
            f"no {model_type} checkpoint in {folder}; looked for config.json with model_type "
            f"{model_type} and model.safetensors: give codec.path=<folder of {download}>"
        )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    remedy = f"give codec.path=<folder of {download}>"
    model = read_pretrained(getattr(transformers, name), folder, remedy, dtype=torch.float32)
    return model.to(device).eval()


def semantic_features(wave: Wave, margin: int) -> np.ndarray:
    """Compute filter bank features of a wave of whole codes: float32 [codes, 2 * bands].

    They are Kaldi's 80 log-mel bands, each with mean 0 and variance 1 over the wave, of two frames
    side by side, equal to those of the official extractors, which use torchaudio.
    """
    from transformers.audio_utils import mel_filter_bank, spectrogram, window_function

    bank = mel_filter_bank(
        FFT // 2 + 1,
        BANDS,
        20,
        INPUT_RATE // 2,
        INPUT_RATE,
        norm=None,
        mel_scale="kaldi",
        triangularize_in_mel_space=True,
    )
    frames = spectrogram(
        np.pad(wave, margin).astype(np.float64) * 2**15,
        window_function(FRAME, "povey", periodic=False),
        frame_length=FRAME,
        hop_length=SHIFT,
        fft_length=FFT,
        power=2.0,
        center=False,
        preemphasis=0.97,
        mel_filters=bank,
        log_mel="log",
        mel_floor=1.192092955078125e-07,
        remove_dc_offset=True,
    ).T
    frames = (frames - frames.mean(0)) / np.sqrt(frames.var(0, ddof=1) + 1e-7)
    frames = frames[: len(frames) // STRIDE * STRIDE]
    return np.asarray(frames.reshape(-1, STRIDE * BANDS), dtype=np.float32)
