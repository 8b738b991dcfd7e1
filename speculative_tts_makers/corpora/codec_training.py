"""Train the tiny codecs: weights from the spread of frames, and codebooks by k-means."""

import numpy as np
from jaxtyping import Float32, Float64
from numpy.typing import NDArray

from speculative_tts.codecs import world
from speculative_tts.codecs.tiny import (
    TOKEN_FEATURES,
    ResidualTinyCodec,
    TinyCodec,
    nearest,
    stack_frames,
)

CEPSTRUM_POWER = 0.6
"""Cepstra are divided by sd ** 0.6: between raw error (0) and equal variance (1)."""

OTHER_WEIGHTS = (0.5, 0.5, 0.3)
"""Weights of log F0, voicing and aperiodicity after division by their sd: words matter more."""


def feature_weights(features: Float64[np.ndarray, "frames 27"]) -> Float32[np.ndarray, " 27"]:
    """Compute the weights from the spread of a sample of frames."""
    spread = features.std(axis=0) + 1e-8
    cepstra, others = spread[: world.N_CEPSTRA], spread[world.N_CEPSTRA :]
    weights = np.concatenate([cepstra**-CEPSTRUM_POWER, np.array(OTHER_WEIGHTS) / others])
    single: NDArray[np.float32] = weights.astype(np.float32)
    return single


def train_codec(
    features: list[Float64[np.ndarray, "_ 27"]], n_codes: int, iterations: int, seed: int
) -> TinyCodec:
    """Train by k-means over the tokens of whole utterances (each a multiple of four frames)."""
    frames = np.concatenate(features)
    weights = feature_weights(frames)
    return TinyCodec(k_means(stack_frames(frames, weights), n_codes, iterations, seed), weights)


def k_means(
    vectors: Float32[np.ndarray, "tokens 108"], n_codes: int, iterations: int, seed: int
) -> Float32[np.ndarray, "codes 108"]:
    """Return centroids, rounded to the float16 in which they are stored."""
    try:
        import faiss
    except ImportError as error:
        message = "training the codec needs faiss: pip install 'speculative_tts[tiny]'"
        raise ImportError(message) from error
    if len(vectors) < n_codes:
        raise ValueError(
            f"{len(vectors)} tokens of speech are too few for n_codes={n_codes}; give fewer codes "
            "or more takes (n_takes)"
        )
    kmeans = faiss.Kmeans(
        TOKEN_FEATURES,
        n_codes,
        niter=iterations,
        seed=seed,
        max_points_per_centroid=len(vectors) // n_codes + 1,
    )
    kmeans.train(vectors)
    codebook = np.asarray(kmeans.centroids, dtype=np.float16).astype(np.float32)
    centroids: NDArray[np.float32] = codebook.reshape(n_codes, TOKEN_FEATURES)
    return centroids


def train_residual_codec(
    features: list[Float64[np.ndarray, "_ 27"]],
    n_layers: int,
    n_codes: int,
    iterations: int,
    seed: int,
) -> ResidualTinyCodec:
    """Train by k-means of the tokens, then of each layer's remainder (for whole tokens)."""
    frames = np.concatenate(features)
    weights = feature_weights(frames)
    left = stack_frames(frames, weights)
    codebooks = []
    for layer in range(n_layers):
        codebook = k_means(left, n_codes, iterations, seed + layer)
        left = left - codebook[nearest(left, codebook)]
        codebooks.append(codebook)
    return ResidualTinyCodec(np.stack(codebooks), weights)
