"""A list, a speech LM and a codec so small that what comes of them is known by hand."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stubs import Markov
from torch import Tensor

from speculative_tts.codecs.registry import Codec
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.decoding.sampling.settings import completed
from speculative_tts.models.prompt import Prompt
from speculative_tts.records import DecodeRecord, ListItem
from speculative_tts.runs.sources.engine import EngineSource
from speculative_tts.runs.target_tokens import TargetTokens
from speculative_tts.schema.decode import DecodeConfig, Repetition, SamplingConfig, System

N_CODES, STOP, RATE = 6, 6, 4000
SAMPLER = Sampler(temperature=0.9)


def settings(**changes: Any) -> SamplingConfig:
    """Of a plain sampler, 2 to 5 tokens a word."""
    plain = {"temperature": 0.9, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0}
    lengths = {"min_tokens_per_word": 2.0, "max_tokens_per_word": 5.0}
    others = {"end_when_likeliest": False, "text_rows": False, "ras_window": 0, "ras_tau": 0.1}
    given = {**plain, **lengths, **others, "ras_variant": Repetition.current}
    return completed(SamplingConfig(**given | changes), {})


class ToyLayout:
    """Six codes, one stop id, any word; `silent` is none."""

    n_codes, stop_ids, speech_vocab_size = N_CODES, (STOP,), N_CODES + 1

    def text_ids(self, text: str, prompt_text: str = "") -> list[int]:
        if "silent" in f"{prompt_text} {text}":
            raise ValueError("unknown words: silent; this model speaks others")
        return [len(word) % N_CODES for word in f"{prompt_text} {text}".split()]

    def limits(self, text: str, length: int, least: float, most: float) -> tuple[int, int]:
        """The prompt's length is room that speech has not."""
        words = len(text.split())
        return int(least * words), int(most * words) - length % 2


class Cells(Tensor):
    """Storage whose rows can be had."""

    def row(self, index: int) -> Tensor:
        return self[index : index + 1]


class ToyLM(Markov):
    """A chain that makes its prompts; rows from 100 on are text."""

    layout = ToyLayout()

    def cache(self, batch: int, capacity: int) -> Tensor:
        return super().cache(batch, capacity).as_subclass(Cells)

    def append(self, prompt: Tensor, ids: Tensor) -> Tensor:
        return torch.cat([prompt, ids[:, None].float()])

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        words = self.layout.text_ids(prompt.text, prompt.voice_text)
        return [*(100 + word for word in words), *prompt.codes]

    def prompt(self, rows: list[int]) -> Tensor:
        return torch.tensor([[0.0], *([float(row % 100)] for row in rows)])

    def speech_ids(self, rows: list[int]) -> list[int]:
        return [row for row in rows if row < 100]


@dataclass
class ToyCodec:
    """Four samples a code, each a tenth of it; a code is the first of four samples."""

    n_codes: int = N_CODES
    n_layers: int = 1
    sample_rate: int = RATE
    token_rate: float = 25.0
    decoded: list[np.ndarray] = field(default_factory=list)

    def encode(self, wave: np.ndarray) -> np.ndarray:
        return np.round(10 * wave[::4]).astype(np.int64)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        self.decoded.append(codes)
        return np.repeat(np.atleast_2d(codes)[0] / 10, 4).astype(np.float32)


def sounding(level: float, samples: int) -> np.ndarray:
    """A wave whose codes are ten times the level, and which is no constant voltage."""
    return np.where(np.arange(samples) % 4 == 0, level, 0).astype(np.float32)


class ToyVoiceCodec(ToyCodec):
    """Speaks as high as the prompt's first code."""

    def encode_prompt(self, wave: np.ndarray) -> np.ndarray:
        return self.encode(wave) + 1

    def decode_as(self, codes: np.ndarray, prompt_codes: np.ndarray) -> np.ndarray:
        return self.decode(codes) + np.float32(prompt_codes[0])


def engine(codec: Codec | None = None, **parts: Any) -> Engine:
    """Target and draft are near chains."""
    target = ToyLM.random(N_CODES + 1, 0)
    given = {"draft": target.near(1, 0.5)} | parts
    return Engine(target, codec or ToyCodec(), settings(), **given)  # type: ignore[arg-type]


def items(folder: Path, count: int = 6) -> list[ListItem]:
    """Of one to three words, two prompts in turn, whose files are there."""
    for name in "ab":
        (folder / name).touch()
    words = ["one", "two", "three"]
    return [
        ListItem(f"u{n}", " ".join(words[: 1 + n % 3]), str(folder / "ab"[n % 2]), "yes", f"s{n}")
        for n in range(count)
    ]


def voices(folder: Path) -> dict[str, Tensor]:
    """Codes of those prompts."""
    return {str(folder / "a"): torch.tensor([1, 2, 1]), str(folder / "b"): torch.tensor([3, 4])}


def decoded(folder: Path, made: Engine | None = None, **given: Any) -> EngineSource:
    """Utterances of `items` of this folder, by the target unless `given` says otherwise."""
    config = DecodeConfig(
        **{"system": System.target, "seed": 3, "timing": 2, "chunk": None} | given
    )
    known = TargetTokens(folder, {"made": "by hand"})
    return EngineSource(made or engine(), config, voices(folder), known)  # type: ignore[arg-type]


def made(source: EngineSource, items: list[ListItem]) -> dict[str, DecodeRecord]:
    """Records in the order of their making."""
    source.start(items, items)
    return {record.id: record for record, _ in source.make(items)}
