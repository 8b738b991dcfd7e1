"""Provide the residual tiny codec: 40 ms tokens as a sum of several codebook entries.

Residual vector quantisation (Zeghidour et al., 2021) of the same weighted stacked WORLD features as
`codecs.tiny`: the first layer is a k-means of the features, each further layer one of the
remainder. The first layer alone is intelligible speech, and a VALL-E-shaped target predicts it
token by token; the others refine it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Float64, Int64
from numpy.typing import NDArray

from speculative_tts.codecs.audio import check_codes
from speculative_tts.codecs.postnet import Postnet
from speculative_tts.codecs.tiny import (
    TOKEN_FEATURES,
    WorldCodec,
    nearest,
    read_codec,
    stack_frames,
)


@dataclass(frozen=True)
class ResidualTinyCodec(WorldCodec):
    """Codec between waves of 16 kHz and layers of 25 codes per second.

    `codebooks` hold weighted features; a feature times `weights` is its weighted value.
    """

    codebooks: Float32[np.ndarray, "layers codes 108"]
    weights: Float32[np.ndarray, " 27"]
    postnet: Postnet | None = None

    books = "codebooks"

    @property
    def n_codes(self) -> int:
        """Number of codebook entries of one layer."""
        return len(self.codebooks[0])

    @property
    def n_layers(self) -> int:
        """Number of codebooks."""
        return len(self.codebooks)

    @property
    def codebook(self) -> Float32[np.ndarray, "codes 108"]:
        """The first layer's entries, the sounds of the codes that a target predicts."""
        first: NDArray[np.float32] = self.codebooks[0]
        return first

    @property
    def sizes(self) -> dict[str, int]:
        """See `WorldCodec`."""
        return {"n_codes": self.n_codes, "n_layers": self.n_layers}

    def encode_features(
        self, features: Float64[np.ndarray, "frames 27"]
    ) -> Int64[np.ndarray, "layers tokens"]:
        """See `WorldCodec`."""
        left = stack_frames(features, self.weights)
        codes = np.empty((self.n_layers, len(left)), dtype=np.int64)
        for layer, codebook in enumerate(self.codebooks):
            codes[layer] = nearest(left, codebook)
            left = left - codebook[codes[layer]]
        return codes

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
        for codebook, layer in zip(self.codebooks, layers, strict=False):
            sums += codebook[layer]
        return sums

    @classmethod
    def load(cls, folder: Path) -> ResidualTinyCodec:
        """Read a folder that `save` wrote; ValueError for another codec's."""
        return cls(*read_codec(folder, "codebooks", 3))
