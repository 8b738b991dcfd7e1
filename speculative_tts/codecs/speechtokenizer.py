"""Provide SpeechTokenizer (Zhang et al., 2024; arXiv 2308.16692): residual codes, a semantic first.

It reads the published config.json and state dict. Codes are [layers, tokens], 50 per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from speculative_tts.codecs.audio import check_codes
from speculative_tts.codecs.seanet import SeanetConfig, SeanetDecoder, SeanetEncoder
from speculative_tts.state_dicts import check_fit, read_state_dict
from speculative_tts.typed import FLAT, read_json, typed

CONFIG, WEIGHTS = "config.json", "SpeechTokenizer.pt"


@dataclass(frozen=True)
class SpeechTokenizerConfig:
    """The part of config.json that describes the model."""

    seanet: SeanetConfig = field(metadata=FLAT)
    semantic_dimension: int
    codebook_size: int
    n_q: int
    sample_rate: int

    @classmethod
    def read(cls, path: Path) -> SpeechTokenizerConfig:
        """Read config.json; raise ValueError naming what it lacks."""
        return typed(cls, read_json(path, f"give a folder with {CONFIG} and {WEIGHTS}"), path)


class Codebook(nn.Module):
    """Codebook entries, and training's running counts (unused here, but in every file)."""

    embed: Tensor

    def __init__(self, entries: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("inited", torch.ones(1))
        self.register_buffer("cluster_size", torch.zeros(entries))
        self.register_buffer("embed", torch.zeros(entries, dimension))
        self.register_buffer("embed_avg", torch.zeros(entries, dimension))

    def nearest(self, x: Float[Tensor, "batch dim frames"]) -> Int64[Tensor, "batch frames"]:
        """Return the entry closest to each frame by Euclidean distance."""
        products = torch.einsum("bdf,ed->bfe", x, self.embed)
        return (2 * products - self.embed.square().sum(-1)).argmax(-1)

    def entries(self, codes: Int64[Tensor, "batch frames"]) -> Float[Tensor, "batch dim frames"]:
        """Look up the entries of codes."""
        return self.embed[codes].mT


class Quantiser(nn.Module):
    """Residual quantisation: each layer codes the remainder of those before."""

    def __init__(self, layers: int, entries: int, dimension: int) -> None:
        super().__init__()
        codebooks = [Codebook(entries, dimension) for _ in range(layers)]
        named = nn.ModuleList(nn.ModuleDict({"_codebook": book}) for book in codebooks)
        self.vq = nn.ModuleDict({"layers": named})
        self.books = tuple(codebooks)

    def encode(self, features: Tensor, layers: int, first: int = 0) -> Tensor:
        """Return codes [layers - first, batch, frames] of layers `first` up to `layers`.

        `first` starts from the features themselves, not from a residual, as the official code does.
        """
        rest, codes = features, []
        for book in self.books[first:layers]:
            codes.append(book.nearest(rest))
            rest = rest - book.entries(codes[-1])
        return torch.stack(codes)

    def decode(self, codes: Int64[Tensor, "layers batch frames"], first: int = 0) -> Tensor:
        """Sum the entries of layers `first`, `first` + 1, ..: [batch, dimension, frames]."""
        return torch.stack(
            [book.entries(row) for book, row in zip(self.books[first:], codes, strict=False)]
        ).sum(0)


class SpeechTokenizer(nn.Module):
    """The model, with the official state dict."""

    def __init__(self, config: SpeechTokenizerConfig) -> None:
        super().__init__()
        self.config = config
        dimension, semantic = config.seanet.dimension, config.semantic_dimension
        self.encoder = SeanetEncoder(config.seanet)
        self.decoder = SeanetDecoder(config.seanet)
        self.quantizer = Quantiser(config.n_q, config.codebook_size, dimension)
        self.transform = nn.Linear(dimension, semantic) if dimension != semantic else nn.Identity()

    @classmethod
    def load(cls, config: Path, weights: Path) -> SpeechTokenizer:
        """Load the model of a config.json and a state dict, for inference.

        Raise ValueError for other files, listing tensors that do not fit.
        """
        model = cls(SpeechTokenizerConfig.read(config))
        state, _ = read_state_dict(weights)
        check_fit(model.state_dict(), state, f"give the {WEIGHTS} that belongs to {config}")
        model.load_state_dict(state)
        return model.eval().requires_grad_(False)

    def encode(
        self, waves: Float[Tensor, "batch 1 samples"], layers: int | None = None, first: int = 0
    ) -> Int64[Tensor, "_ batch frames"]:
        """Return the codes of layers `first` up to `layers` (default: all)."""
        count = self.config.n_q if layers is None else layers
        return self.quantizer.encode(self.encoder(waves), count, first)

    def decode(self, codes: Int64[Tensor, "_ batch frames"], first: int = 0) -> Tensor:
        """Return the waves [batch, 1, frames * hop] of layers `first`, `first` + 1, .."""
        waves: Tensor = self.decoder(self.quantizer.decode(codes, first))
        return waves

    def semantic(
        self, waves: Float[Tensor, "batch 1 samples"]
    ) -> Float[Tensor, "batch frames semantic"]:
        """Return the first layer's entries, projected to the space of its teacher (HuBERT)."""
        features = self.quantizer.decode(self.encode(waves, 1))
        projected: Tensor = self.transform(features.mT)
        return projected


class SpeechTokenizerCodec:
    """The model as a codec of NumPy waves, codes [layers, tokens]; on a GPU if torch finds one."""

    def __init__(self, model: SpeechTokenizer) -> None:
        self.model, config = model, model.config
        self.n_layers, self.n_codes = config.n_q, config.codebook_size  # codes of each layer
        self.sample_rate = config.sample_rate
        self.token_rate = config.sample_rate / config.seanet.hop  # of each layer
        self.device = model.quantizer.books[0].embed.device

    @classmethod
    def load(cls, folder: Path) -> SpeechTokenizerCodec:
        """Read a folder with config.json and SpeechTokenizer.pt; raise ValueError for another."""
        model = SpeechTokenizer.load(folder / CONFIG, folder / WEIGHTS)
        return cls(model.to("cuda" if torch.cuda.is_available() else "cpu"))

    def encode(self, wave: np.ndarray) -> np.ndarray:
        """Encode every started 20 ms of a mono wave in [-1, 1]: int64 [layers, tokens]."""
        return self.encode_many([wave])[0]

    def encode_many(self, waves: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Encode several waves, with the same results as `encode`."""
        for wave in waves:
            if wave.ndim != 1:
                raise ValueError(f"a mono wave of shape (samples,) is needed, got {wave.shape}")
        ready = [
            torch.from_numpy(np.ascontiguousarray(wave, dtype=np.float32))[None, None]
            for wave in waves
            if len(wave)
        ]
        features = iter(self._features([wave.to(self.device) for wave in ready]))
        none = np.zeros((self.n_layers, 0), dtype=np.int64)
        return [self._codes(next(features)) if len(wave) else none for wave in waves]

    @torch.inference_mode()
    def _features(self, waves: list[Tensor]) -> list[Tensor]:
        return self.model.encoder.ragged(waves) if waves else []

    def _codes(self, features: Tensor) -> np.ndarray:
        """Quantise features [1, dimension, tokens] to codes [layers, tokens]."""
        codes: np.ndarray = self.model.quantizer.encode(features, self.n_layers)[:, 0].cpu().numpy()
        return codes

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Decode codes [layers, tokens], of fewer layers, or of the first alone, [tokens]."""
        rows = np.atleast_2d(np.asarray(codes, dtype=np.int64))
        if rows.ndim > 2 or len(rows) > self.n_layers:
            raise ValueError(
                f"codes of shape ({self.n_layers}, tokens) are needed, not {rows.shape}"
            )
        if rows.size == 0:
            return np.zeros(0, dtype=np.float32)
        check_codes(rows, self.n_codes)
        ids = torch.from_numpy(rows)[:, None].to(self.device)
        wave: np.ndarray = self.model.decode(ids)[0, 0].cpu().numpy()
        return wave
