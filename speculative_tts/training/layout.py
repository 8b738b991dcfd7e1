"""The merged vocabulary of a CosyVoice-2-shaped checkpoint and its `speech.json`.

Rows: speech codes, end of speech, text words, <sos>, <task>.
Input: <sos> prompt text, text <task> prompt speech; the speech goes on until end of speech.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Sampling:
    """The checkpoint's own sampler and length limits."""

    temperature: float = 0.8
    top_k: int = 25
    top_p: float = 0.9
    min_tokens_per_word: float = 4.0
    max_tokens_per_word: float = 28.0


@dataclass(frozen=True)
class SpeechLayout:
    """What `speech.json` states about a checkpoint."""

    n_codes: int
    words: tuple[str, ...]
    token_rate: float = 25.0
    sample_rate: int = 16_000
    sampling: Sampling = Sampling()

    @property
    def eos_id(self) -> int:
        """End of speech."""
        return self.n_codes

    @property
    def speech_vocab_size(self) -> int:
        """Rows of codes and end of speech."""
        return self.n_codes + 1

    @property
    def text_offset(self) -> int:
        """Row of the first word."""
        return self.speech_vocab_size

    @property
    def sos_id(self) -> int:
        """Start of the sequence."""
        return self.text_offset + len(self.words)

    @property
    def task_id(self) -> int:
        """Between text and speech."""
        return self.sos_id + 1

    @property
    def vocab_size(self) -> int:
        """All rows."""
        return self.task_id + 1

    def encode_text(self, text: str) -> list[int]:
        """Ids of space-separated words."""
        index = {word: self.text_offset + i for i, word in enumerate(self.words)}
        unknown = sorted(set(text.lower().split()) - index.keys())
        if unknown:
            raise ValueError(f"unknown words {unknown}; this target knows {' '.join(self.words)}")
        return [index[word] for word in text.lower().split()]

    def model_input(self, text: str, prompt_text: str, prompt_codes: list[int]) -> list[int]:
        """Everything before the first generated token."""
        both = self.encode_text(prompt_text) + self.encode_text(text)
        return [self.sos_id, *both, self.task_id, *prompt_codes]

    def save(self, path: Path) -> None:
        """Write `speech.json`."""
        content = {
            "format_version": FORMAT_VERSION,
            "n_codes": self.n_codes,
            "stop_ids": [self.eos_id],
            "speech_vocab_size": self.speech_vocab_size,
            "text_offset": self.text_offset,
            "words": list(self.words),
            "sos_id": self.sos_id,
            "task_id": self.task_id,
            "token_rate": self.token_rate,
            "sample_rate": self.sample_rate,
            "sampling": asdict(self.sampling),
        }
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(content, indent=2) + "\n")
        os.replace(temporary, path)

    @classmethod
    def load(cls, path: Path) -> SpeechLayout:
        """Read a `speech.json`."""
        content = json.loads(path.read_text())
        if content["format_version"] != FORMAT_VERSION:
            raise ValueError(
                f"{path} has format {content['format_version']}; this version reads "
                f"{FORMAT_VERSION}: export the target again with sst-train-target"
            )
        return cls(
            n_codes=content["n_codes"],
            words=tuple(content["words"]),
            token_rate=content["token_rate"],
            sample_rate=content["sample_rate"],
            sampling=Sampling(**content["sampling"]),
        )
