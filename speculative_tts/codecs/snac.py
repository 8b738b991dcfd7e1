"""Provide SNAC (Siuzdak, 2024; arXiv 2410.14411), the codec of Orpheus: codes of three rates.

The package `snac` runs it, from a local folder with config.json and pytorch_model.bin such as
`hubertsiuzdak/snac_24khz`; nothing is downloaded. A frame is the codes of one step of the slowest
codebook, each followed by the faster ones' within its time: of strides 4, 2, 1 the levels 0, 1, 2,
2, 1, 2, 2. Code c of position k is k * size + c, which is how Orpheus numbers them.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from speculative_tts.codecs.audio import Wave, check_codes
from speculative_tts.codecs.pieces import Window, Windowed
from speculative_tts.schema.fields import Count
from speculative_tts.state_dicts import check_fit, read_state_dict
from speculative_tts.typed import read_json, typed

CONFIG, WEIGHTS = "config.json", "pytorch_model.bin"
DOWNLOAD = "give codec.path=<folder of hubertsiuzdak/snac_24khz>"
SEED = 0  # of the decoder's noise, which is drawn anew for each wave
# Frames, in place of codes. The authors' streams see one frame before and two after each piece.
WINDOW = Window(ahead=2, chunk=4, back=8, fade=256)


@dataclass(frozen=True)
class _Settings:
    """The keys of config.json that are used here."""

    sampling_rate: Count
    codebook_size: Count
    vq_strides: list[Count]


class SnacCodec:
    """Code waves as frames of codes in one row, int64 [tokens]."""

    n_layers = 1

    def __init__(self, model: Any) -> None:
        self.model = model
        self.levels = frame_levels(model.vq_strides)  # the codebook of each position of a frame
        self.size = int(model.codebook_size)  # codes of a position
        self.n_codes = self.size * len(self.levels)
        self.sample_rate = int(model.sampling_rate)  # of waves, in and out
        self.hop = int(model.hop_length) * int(model.vq_strides[0])  # samples of a frame
        self.token_rate = self.sample_rate / self.hop * len(self.levels)

    @classmethod
    def load(cls, folder: Path) -> "SnacCodec":
        """Read a folder with config.json and pytorch_model.bin; raise ValueError for another."""
        build = _package()
        for name in (CONFIG, WEIGHTS):
            if not (folder / name).is_file():
                raise ValueError(f"no {name} in {folder}; {DOWNLOAD}")
        settings = read_json(folder / CONFIG, DOWNLOAD)
        _check_strides(typed(_Settings, settings, folder / CONFIG).vq_strides, folder)
        try:
            model = build(**settings)
        except (TypeError, ValueError, RuntimeError, ZeroDivisionError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"{folder / CONFIG} describes no SNAC ({reason}); {DOWNLOAD}"
            ) from error
        state, _ = read_state_dict(folder / WEIGHTS)
        check_fit(model.state_dict(), state, DOWNLOAD)
        model.load_state_dict(state)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(model.to(device).eval().requires_grad_(requires_grad=False))

    @cached_property
    def codebook(self) -> np.ndarray:
        """Return the codebook entry of every code, float32 [n_codes, dimensions]."""
        books = [one.codebook.weight for one in self.model.quantizer.quantizers]
        whole = torch.cat([books[level] for level in self.levels])
        return np.asarray(whole.float().cpu().numpy())

    @torch.inference_mode()
    def encode(self, wave: Wave) -> np.ndarray:
        """Encode a mono wave to whole frames, zeros after its end."""
        samples = torch.from_numpy(np.asarray(wave, dtype=np.float32))
        if not len(samples):
            return np.zeros(0, dtype=np.int64)
        device = next(self.model.parameters()).device
        codes = self.model.encode(samples[None, None].to(device))
        return interleave([level[0].cpu().numpy() for level in codes], self.levels, self.size)

    def decode(self, codes: np.ndarray) -> Wave:
        """Decode codes, int64 [tokens], to a wave; frames that are not whole are left out."""
        return self._decode(whole_frames(codes, len(self.levels), self.size))

    def speaking(
        self,
        prompt_codes: np.ndarray,  # noqa: ARG002 - a piece needs no prompt
        chunk: int | None = None,
    ) -> "FramedSpeech":
        """Start an utterance in pieces of whole frames."""
        return FramedSpeech(self, chunk)

    @torch.inference_mode()
    def _decode(self, frames: np.ndarray) -> Wave:
        """Decode frames, int64 [frames, positions]."""
        if not len(frames):
            return np.zeros(0, dtype=np.float32)
        device = next(self.model.parameters()).device
        codes = [torch.from_numpy(one)[None].to(device) for one in by_level(frames, self.levels)]
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(SEED)
            wave = self.model.decode(codes)
        return np.asarray(wave[0, 0].float().cpu().numpy())


def _package() -> Any:
    """Return the class of the package snac; ImportError says how to get it."""
    try:
        with warnings.catch_warnings():  # it compiles a function by torch.jit, which is deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            from snac import SNAC
    except ImportError as error:
        raise ImportError(
            "codec snac needs the package snac: pip install 'speculative_tts[snac]'"
        ) from error
    return SNAC


class FramedSpeech:
    """Speak one utterance in pieces of whole frames (a `Speaking`)."""

    def __init__(self, codec: SnacCodec, chunk: int | None) -> None:
        self._codec, self._length = codec, len(codec.levels)
        frames = None if chunk is None else math.ceil(chunk / self._length)
        none = np.zeros((0, self._length), dtype=np.int64)
        self._windowed = Windowed(codec._decode, WINDOW, frames, none)

    def strides(self) -> Iterator[int]:
        """See `Speaking`."""
        return (self._length * frames for frames in self._windowed.strides())

    def ready(self, codes: np.ndarray, *, ended: bool = False) -> Iterator[Wave]:
        """See `Speaking`."""
        frames = whole_frames(codes, self._length, self._codec.size)
        yield from self._windowed.ready(frames, ended=ended)
        if ended and len(codes) and not len(frames):
            yield np.zeros(self._codec.hop, dtype=np.float32)  # codes, and no frame of them


def frame_levels(strides: list[int]) -> tuple[int, ...]:
    """Return the level of each position of a frame: a code, then the faster ones of its time."""

    def within(level: int) -> tuple[int, ...]:
        if level + 1 == len(strides):
            return (level,)
        return (level, *within(level + 1) * (strides[level] // strides[level + 1]))

    return within(0)


def interleave(codes: list[np.ndarray], levels: tuple[int, ...], size: int) -> np.ndarray:
    """Write each level's codes as frames in one row: int64 [tokens]."""
    places = np.array(levels)
    frames = np.empty((len(codes[0]), len(levels)), dtype=np.int64)
    for level, own in enumerate(codes):
        frames[:, places == level] = own.reshape(len(frames), -1)
    return (frames + size * np.arange(len(levels))).reshape(-1)


def by_level(frames: np.ndarray, levels: tuple[int, ...]) -> list[np.ndarray]:
    """Return the codes of each level of frames [frames, positions] of codes below `size`."""
    places = np.array(levels)
    return [frames[:, places == level].reshape(-1) for level in range(max(levels) + 1)]


def whole_frames(codes: np.ndarray, length: int, size: int) -> np.ndarray:
    """Return the whole frames in a row of codes, as codes below `size`: int64 [frames, length].

    A frame has a code of each position in turn. A sampler that may emit anything anywhere can leave
    parts of frames, which are dropped. Raises ValueError for a code out of range.
    """
    codes = np.asarray(codes, dtype=np.int64)
    check_codes(codes, length * size)
    begins = np.flatnonzero(codes // size == 0)
    begins = begins[begins + length <= len(codes)]
    frames = codes[begins[:, None] + np.arange(length)]
    whole = (frames // size == np.arange(length)).all(1)
    return np.ascontiguousarray(frames[whole] % size)


def _check_strides(strides: list[int], folder: Path) -> None:
    """Raise ValueError for codebooks whose rates do not divide each other."""
    if not strides or strides[-1] != 1 or any(slow % fast for slow, fast in pairwise(strides)):
        raise ValueError(f"{folder / CONFIG} has vq_strides {strides}, no frames; {DOWNLOAD}")
