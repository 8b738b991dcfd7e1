"""Provide the tiny codecs: 40 ms speech tokens, k-means codebooks over stacked WORLD frames.

A token is four 10 ms frames of 27 features each (see `world.frame_features`); codebook entries live
in a weighted space where squared distance is a fair error measure. `ResidualTinyCodec` is residual
vector quantisation (Zeghidour et al., 2021): its first layer is a k-means of the features, each
further layer one of the remainder. The first layer alone is intelligible speech, and a
VALL-E-shaped target predicts it token by token; the others refine it. `TinyCodec` has one layer,
and codes without that axis. For decoding a postnet corrects the entries (`codecs.postnet`) and the
weights are undone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float32, Float64, Int64
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from speculative_tts.codecs import world
from speculative_tts.codecs.audio import check_codes
from speculative_tts.codecs.pieces import Window, Windowed
from speculative_tts.codecs.postnet import NEIGHBOURS, Postnet
from speculative_tts.files import write_atomic
from speculative_tts.typed import read_json, write_json

FRAMES_PER_TOKEN = 4
TOKEN_FEATURES = FRAMES_PER_TOKEN * world.N_FEATURES
SAMPLES_PER_TOKEN = FRAMES_PER_TOKEN * world.SAMPLES_PER_FRAME
BARE, FORMAT_VERSION = 1, 2  # without and with a postnet
KINDS = ("F64", "F32", "F16")  # of numbers that numpy reads
MADE = "give tiny:codec, tiny:codec_residual for VALL-E, or what sst-prepare made"
# WORLD's pulses and noise depend on all frames before, and reach 0.04 s back from the end.
WINDOW = Window(ahead=2, chunk=5)


@dataclass(frozen=True)
class WorldCodec:
    """Base of both tiny codecs, which turn weighted WORLD features into codes and back.

    Entries are weighted features; a feature times `weights` is its weighted value.
    """

    entries: Float32[np.ndarray, "*layers codes 108"]
    weights: Float32[np.ndarray, " 27"]
    postnet: Postnet | None = None

    sample_rate = world.SAMPLE_RATE
    token_rate = world.SAMPLE_RATE / SAMPLES_PER_TOKEN
    books: ClassVar[str]  # name of the entries in a file
    dimensions: ClassVar[int]  # of the entries: three where codes have an axis of layers

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder that `save` wrote; ValueError for another codec's."""
        return cls(*read_codec(folder, cls.books, cls.dimensions))

    @property
    def layers(self) -> Float32[np.ndarray, "layers codes 108"]:
        """Codebooks of all layers, of a single one too."""
        return self.entries.reshape(-1, *self.entries.shape[-2:])

    @property
    def codebook(self) -> Float32[np.ndarray, "codes 108"]:
        """The first layer's entries, the sounds of the codes that a target predicts."""
        first: NDArray[np.float32] = self.layers[0]
        return first

    @property
    def n_codes(self) -> int:
        """Number of codebook entries of one layer."""
        return len(self.layers[0])

    @property
    def n_layers(self) -> int:
        """Number of codebooks."""
        return len(self.layers)

    def encode(self, wave: world.Wave) -> Int64[np.ndarray, "*layers tokens"]:
        """Encode every full 40 ms of a mono 16 kHz wave in [-1, 1]."""
        if wave.ndim != 1:
            raise ValueError(f"a mono wave of shape (samples,) is needed, got {wave.shape}")
        if len(wave) < SAMPLES_PER_TOKEN:
            return self.encode_features(np.zeros((0, world.N_FEATURES)))
        return self.encode_features(world.frame_features(world.analyse(wave)))

    def decode(self, codes: Int64[np.ndarray, "*layers tokens"]) -> world.Wave:
        """Decode codes to a wave of 640 samples per token."""
        if codes.shape[-1] == 0:
            return np.zeros(0, dtype=np.float32)
        return world.synthesise(world.frames_from_features(self.decode_features(codes)))

    def save(self, folder: Path) -> None:
        """Write `codec.safetensors` (float16 but for weights) and `codec.json` into `folder`."""
        halves = {self.books: self.entries}
        if self.postnet:
            halves |= self.postnet.arrays
        tensors = {name: array.astype(np.float16) for name, array in halves.items()}
        meta = {
            "format_version": FORMAT_VERSION if self.postnet else BARE,
            "n_codes": self.n_codes,
            **({"n_layers": self.n_layers} if self.entries.ndim == 3 else {}),
            "sample_rate": self.sample_rate,
            "token_rate": self.token_rate,
            "frames_per_token": FRAMES_PER_TOKEN,
            "features": "24 mel-cepstra, log F0 (relative, voiced), voicing, band aperiodicity",
        }
        write_atomic(folder / "codec.safetensors", save(tensors | {"weights": self.weights}))
        write_json(folder / "codec.json", meta)

    def encode_features(
        self, features: Float64[np.ndarray, "frames 27"]
    ) -> Int64[np.ndarray, "*layers tokens"]:
        """Encode frame features; frames beyond a multiple of four are dropped."""
        left = stack_frames(features, self.weights)
        codes = np.empty((self.n_layers, len(left)), dtype=np.int64)
        for layer, codebook in enumerate(self.layers):
            codes[layer] = nearest(left, codebook)
            left = left - codebook[codes[layer]]
        return codes if self.entries.ndim == 3 else codes[0]

    def decode_features(
        self, codes: Int64[np.ndarray, "*layers tokens"]
    ) -> Float64[np.ndarray, "frames 27"]:
        """Decode codes to features of four frames each; raise ValueError for codes out of range."""
        tokens = self.look_up(codes)
        better = self.postnet(tokens.astype(np.float32)) if self.postnet else tokens
        features: NDArray[np.float64] = better.reshape(-1, world.N_FEATURES) / np.float64(
            self.weights
        )
        return features

    def look_up(
        self, codes: Int64[np.ndarray, "*layers tokens"]
    ) -> Float64[np.ndarray, "tokens 108"]:
        """Sum the weighted features of codes over the layers that are given.

        Codes of shape (tokens,) are the first layer's. Raise ValueError for codes out of range.
        """
        layers = np.atleast_2d(codes)
        if len(layers) > self.n_layers:
            raise ValueError(f"codes of {len(layers)} layers; the codec has {self.n_layers}")
        check_codes(layers, self.n_codes)
        sums = np.zeros((layers.shape[1], TOKEN_FEATURES))
        for codebook, layer in zip(self.layers, layers, strict=False):
            sums += codebook[layer]
        return sums


class TinyCodec(WorldCodec):
    """Codec between waves of 16 kHz and 25 codes per second."""

    books, dimensions = "codebook", 2

    def speaking(self, prompt_codes: np.ndarray, chunk: int | None = None) -> Windowed:  # noqa: ARG002
        """Start an utterance in pieces, whose samples equal the whole utterance's."""
        window = replace(WINDOW, ahead=WINDOW.ahead + (NEIGHBOURS if self.postnet else 0))
        return Windowed(self.decode, window, chunk, np.zeros(0, dtype=np.int64))


class ResidualTinyCodec(WorldCodec):
    """Codec between waves of 16 kHz and layers of 25 codes per second."""

    books, dimensions = "codebooks", 3


def read_codec(
    folder: Path, books: str, dimensions: int
) -> tuple[Float32[np.ndarray, ...], Float32[np.ndarray, " 27"], Postnet | None]:
    """Read a codec folder's codebooks, weights and postnet; raise ValueError for another folder."""
    meta = read_json(folder / "codec.json", MADE)
    version = meta.get("format_version")
    if version not in (BARE, FORMAT_VERSION):
        raise ValueError(
            f"{folder} has codec format {version}, this version reads {BARE} and {FORMAT_VERSION}; "
            f"{MADE}"
        )
    try:
        with safe_open(folder / "codec.safetensors", framework="numpy") as tensors:
            kinds = {name: tensors.get_slice(name).get_dtype() for name in tensors.keys()}  # noqa: SIM118
        if odd := [f"{name} of {kind}" for name, kind in kinds.items() if kind not in KINDS]:
            raise ValueError(f"{folder}: codec.safetensors has {odd[0]}, which is not read; {MADE}")
        stored = load_file(folder / "codec.safetensors")
    except (OSError, SafetensorError) as error:
        raise ValueError(
            f"{folder}: codec.safetensors is not readable ({error}); {MADE}"
        ) from error
    for name, wanted in {books: dimensions, "weights": 1}.items():
        if name not in stored or stored[name].ndim != wanted or not np.isfinite(stored[name]).all():
            raise ValueError(
                f"{folder}: codec.safetensors has no {name} of {wanted} dimensions and finite "
                f"numbers; {MADE}"
            )
    after = "postnet." if version == FORMAT_VERSION else books  # prefix of what else it may have
    if unread := [name for name in stored if not name.startswith((books, "weights", after))]:
        raise ValueError(f"{folder}: codec.safetensors has {unread[0]}, which is not read; {MADE}")
    single = {name: array.astype(np.float32) for name, array in stored.items()}
    try:
        postnet = Postnet.of(single, TOKEN_FEATURES) if version == FORMAT_VERSION else None
    except ValueError as error:
        raise ValueError(f"{folder}: codec.safetensors: {error}; {MADE}") from error
    return single[books], single["weights"], postnet


def stack_frames(
    features: Float64[np.ndarray, "frames 27"], weights: Float32[np.ndarray, " 27"]
) -> Float32[np.ndarray, "tokens 108"]:
    """Join the weighted features of four consecutive frames."""
    tokens = len(features) // FRAMES_PER_TOKEN
    weighted = features[: tokens * FRAMES_PER_TOKEN] * weights
    return np.ascontiguousarray(weighted.reshape(tokens, TOKEN_FEATURES), dtype=np.float32)


def nearest(
    vectors: Float32[np.ndarray, "tokens 108"], codebook: Float32[np.ndarray, "codes 108"]
) -> Int64[np.ndarray, " tokens"]:
    """Return the index of the closest codebook row by squared Euclidean distance."""
    half_norms = 0.5 * np.square(codebook).sum(axis=1)
    closest: NDArray[np.int64] = np.argmax(vectors @ codebook.T - half_norms, axis=1)
    return closest
