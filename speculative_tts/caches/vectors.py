"""Compute the vectors that similarity of tokens is measured on, besides the target's embeddings.

They are mel vectors, or the entries of a codebook.

PCG's table 3 uses mel vectors, but the paper does not define them. Here token t is decoded between
three tokens of silence on each side, where the silence is the code whose own sound, held for three
tokens, has the least energy in its middle. Log-mel frames (80 Slaney bands, a Hann window of 25 ms
every 10 ms, natural logarithm of power, floor 1e-10) whose centre lies within the token's time are
averaged, and the mean over all codes is subtracted.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speculative_tts.caches.store import array_hash
from speculative_tts.codecs.registry import Codec
from speculative_tts.progress import Stage, silent

MEL_DEFINITION = "log-mel 80, 25/10 ms, between 3 tokens of silence, mean of frames, centred: 1"
BANDS, AROUND, CHUNK = 80, 3, 256


def embedding_hash(embedding: Tensor) -> str:
    """Return the SHA-256 of an embedding's values, type and shape."""
    head = np.array([str(embedding.dtype), *map(str, embedding.shape)])
    return array_hash([head, embedding.view(torch.uint8).numpy()])


def mel_vectors(codec: Codec, n_codes: int, stage: Stage = silent) -> Tensor:
    """Compute mel vectors of codes 0 .. n_codes - 1: float32 [n_codes, BANDS]."""
    silence = quietest(codec, n_codes, stage)
    means = []
    with stage("mel frames", n_codes) as progress:
        for codes in _chunks(n_codes):
            padded = np.full((len(codes), AROUND + 1), silence)
            padded[:, AROUND] = codes
            sequence = np.append(padded.ravel(), np.full(AROUND, silence))
            frames = log_mel(codec.decode(sequence), codec.sample_rate)
            means.append(_token_means(frames, AROUND + np.arange(len(codes)) * (AROUND + 1), codec))
            progress(len(codes))
    vectors = torch.cat(means)
    return vectors - vectors.mean(0)


def codebook_vectors(codec: Codec, folder: str | Path) -> Tensor:
    """Return the entries of the codec's (first) codebook: float32 [n_codes, size]."""
    codebook = getattr(codec, "codebook", None)
    if codebook is None:
        raise ValueError(f"codec {folder} has no codebook; give source=embedding or source=mel")
    return torch.from_numpy(np.asarray(codebook, dtype=np.float32))


def nearest(vectors: Tensor, k: int, ranges: Sequence[range] = ()) -> Tensor:
    """Return each vector's k nearest others by distance, the nearest first: int64 [n, k].

    A vector's own number fills the row where there are fewer others, and for a vector of NaN.
    `ranges`: neighbours are of the same range of numbers only.
    """
    known = (~vectors.isnan().any(-1)).nonzero()[:, 0]
    pools = [known[(known >= one.start) & (known < one.stop)] for one in ranges] or [known]
    k = min(k, max(map(len, pools)) - 1)
    own = torch.arange(len(vectors), device=vectors.device)
    result = own[:, None].repeat(1, k)
    for pool in pools:
        near = min(k, len(pool) - 1)
        for begin in range(0, len(pool), CHUNK):
            rows = pool[begin : begin + CHUNK]
            distances = torch.cdist(vectors[rows], vectors[pool])
            distances[rows[:, None] == pool] = -1.0
            closest = distances.topk(near + 1, -1, largest=False).indices[:, 1:]
            result[rows, :near] = pool[closest]
    return result


def quietest(codec: Codec, n_codes: int, stage: Stage = silent) -> int:
    """Return the code with the least energy when it is held for three tokens."""
    size = codec.sample_rate / codec.token_rate
    energy = np.empty(n_codes)
    with stage("silence", n_codes) as progress:
        for codes in _chunks(n_codes):
            wave = codec.decode(np.repeat(codes, 3))
            for index, code in enumerate(codes):
                middle = wave[round((3 * index + 1) * size) : round((3 * index + 2) * size)]
                energy[code] = np.square(middle, dtype=np.float64).mean()
            progress(len(codes))
    return int(energy.argmin())


def _chunks(n_codes: int) -> Iterator[NDArray[np.int64]]:
    """Yield codes 0 .. n_codes - 1 in chunks that are decoded together."""
    for begin in range(0, n_codes, CHUNK):
        yield np.arange(begin, min(begin + CHUNK, n_codes))


def log_mel(wave: np.ndarray, sample_rate: int) -> Tensor:
    """Compute log-mel frames of a wave, one every 10 ms, the first centred on its first sample."""
    from transformers.audio_utils import mel_filter_bank

    window, hop = sample_rate // 40, sample_rate // 100
    size = 1 << (window - 1).bit_length()
    power = (
        torch.stft(
            torch.from_numpy(wave.astype(np.float32)),
            size,
            hop,
            window,
            torch.hann_window(window),
            pad_mode="constant",
            return_complex=True,
        )
        .abs()
        .square()
    )
    bank = mel_filter_bank(
        size // 2 + 1, BANDS, 0.0, sample_rate / 2, sample_rate, norm="slaney", mel_scale="slaney"
    )
    return (power.T @ torch.from_numpy(bank).float()).clamp(min=1e-10).log()


def _token_means(frames: Tensor, places: np.ndarray, codec: Codec) -> Tensor:
    """Average the frames centred within each of the tokens at `places` of a decoded sequence."""
    per_token = 100 / codec.token_rate
    begin, end = np.ceil(places * per_token), np.ceil((places + 1) * per_token)
    spans = zip(begin.astype(int), end.astype(int), strict=True)
    return torch.stack([frames[low:high].mean(0) for low, high in spans])
