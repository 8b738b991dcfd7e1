"""The residual tiny codec: the tiny codec's 40 ms tokens as a sum of several codebook entries.

Residual vector quantisation (Zeghidour et al., 2021) of the same weighted stacked WORLD features as
`codecs.tiny`: the first layer is a k-means of the features, each further layer one of what is left.
The first layer alone is intelligible speech: it is what a VALL-E-shaped target predicts token by
token; the others refine it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Float64, Int64
from numpy.typing import NDArray
from safetensors.numpy import save

from speculative_tts.codecs import world
from speculative_tts.codecs.tiny import (
    FRAMES_PER_TOKEN,
    SAMPLES_PER_TOKEN,
    TOKEN_FEATURES,
    feature_weights,
    k_means,
    nearest,
    read_codec,
    stack_frames,
)
from speculative_tts.files import write_atomic
from speculative_tts.records import write_json

FORMAT_VERSION = 1


@dataclass(frozen=True)
class ResidualTinyCodec:
    """Waves of 16 kHz to layers of codes at 25 a second and back.

    `codebooks` hold weighted features; a feature times `weights` is its weighted value.
    """

    codebooks: Float32[np.ndarray, "layers codes 108"]
    weights: Float32[np.ndarray, " 27"]

    sample_rate = world.SAMPLE_RATE
    token_rate = world.SAMPLE_RATE / SAMPLES_PER_TOKEN

    @property
    def n_codes(self) -> int:
        """Codebook entries of one layer."""
        return len(self.codebooks[0])

    @property
    def n_layers(self) -> int:
        """Codebooks."""
        return len(self.codebooks)

    @property
    def codebook(self) -> Float32[np.ndarray, "codes 108"]:
        """The first layer's entries: what the codes of a target sound like."""
        first: NDArray[np.float32] = self.codebooks[0]
        return first

    def encode(self, wave: world.Wave) -> Int64[np.ndarray, "layers tokens"]:
        """Codes of every full 40 ms of a mono 16 kHz wave in [-1, 1]."""
        if wave.ndim != 1:
            raise ValueError(f"a mono wave of shape (samples,) is needed, got {wave.shape}")
        if len(wave) < SAMPLES_PER_TOKEN:
            return np.zeros((self.n_layers, 0), dtype=np.int64)
        return self.encode_features(world.frame_features(world.analyse(wave)))

    def encode_features(
        self, features: Float64[np.ndarray, "frames 27"]
    ) -> Int64[np.ndarray, "layers tokens"]:
        """Codes of frame features; frames beyond a multiple of four are dropped."""
        left = stack_frames(features, self.weights)
        codes = np.empty((self.n_layers, len(left)), dtype=np.int64)
        for layer, codebook in enumerate(self.codebooks):
            codes[layer] = nearest(left, codebook)
            left = left - codebook[codes[layer]]
        return codes

    def decode_features(
        self, codes: Int64[np.ndarray, "layers tokens"]
    ) -> Float64[np.ndarray, "frames 27"]:
        """Frame features of codes, four frames a token; of the first layers if not all are given.

        Codes of shape (tokens,) are the first layer's. Raises ValueError for codes out of range.
        """
        layers = np.atleast_2d(codes)
        if len(layers) > self.n_layers:
            raise ValueError(f"codes of {len(layers)} layers; the codec has {self.n_layers}")
        if layers.size and not 0 <= int(layers.min()) <= int(layers.max()) < self.n_codes:
            raise ValueError(f"codes must lie in [0, {self.n_codes}); drop stop tokens first")
        sums = np.zeros((layers.shape[1], TOKEN_FEATURES))
        for codebook, layer in zip(self.codebooks, layers, strict=False):
            sums += codebook[layer]
        features: NDArray[np.float64] = sums.reshape(-1, world.N_FEATURES) / self.weights
        return features

    def decode(self, codes: Int64[np.ndarray, "layers tokens"]) -> world.Wave:
        """Wave of codes: 640 samples a token; all layers, or the first ones alone."""
        if codes.shape[-1] == 0:
            return np.zeros(0, dtype=np.float32)
        return world.synthesise(world.frames_from_features(self.decode_features(codes)))

    def save(self, folder: Path) -> None:
        """Write `codec.safetensors` (float16 codebooks) and `codec.json` into `folder`."""
        tensors = {"codebooks": self.codebooks.astype(np.float16), "weights": self.weights}
        write_atomic(folder / "codec.safetensors", save(tensors))
        meta = {
            "format_version": FORMAT_VERSION,
            "n_codes": self.n_codes,
            "n_layers": self.n_layers,
            "sample_rate": self.sample_rate,
            "token_rate": self.token_rate,
            "frames_per_token": FRAMES_PER_TOKEN,
            "features": "24 mel-cepstra, log F0 (relative, voiced), voicing, band aperiodicity",
        }
        write_json(folder / "codec.json", meta)

    @classmethod
    def load(cls, folder: Path) -> ResidualTinyCodec:
        """Read a folder that `save` wrote; ValueError for another codec's."""
        return cls(*read_codec(folder, ("codebooks", 3), ("weights", 1)))


def train_residual_codec(
    features: list[Float64[np.ndarray, "_ 27"]],
    n_layers: int,
    n_codes: int,
    iterations: int,
    seed: int,
) -> ResidualTinyCodec:
    """k-means of the tokens, then of what each layer leaves (utterances of whole tokens)."""
    frames = np.concatenate(features)
    weights = feature_weights(frames)
    left = stack_frames(frames, weights)
    codebooks = []
    for layer in range(n_layers):
        codebook = k_means(left, n_codes, iterations, seed + layer)
        left = left - codebook[nearest(left, codebook)]
        codebooks.append(codebook)
    return ResidualTinyCodec(np.stack(codebooks), weights)
