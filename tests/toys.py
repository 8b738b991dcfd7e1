"""A rule, a drafter, a target family and a metric as a stranger adds them: what CONTRIBUTING lists.

Each is its file (here a class); families and metrics have a line of a registry (`register`) and a
YAML (`write_configs`), rules and drafters name in their settings what builds them.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Request, Size
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.drafters.drafter import Laws, PerRow, States, room, up_to_stop
from speculative_tts.decoding.rules.acceptance import Artefacts, Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.evaluation import registry
from speculative_tts.evaluation.audio import Wave
from speculative_tts.evaluation.judge import Measure, Opinion
from speculative_tts.evaluation.metric import Metric, each
from speculative_tts.models.families import registry as families
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.drafters import DrafterConfig
from speculative_tts.schema.fields import Share
from speculative_tts.schema.rules import RuleConfig


@dataclass
class TimidConfig(RuleConfig):
    """A rule's settings."""

    built_by = "toys:Timid.build"
    name: str = "timid"
    trust: Share = 0.5  # of the tokens that the exact rule accepts

    @property
    def label(self) -> list[str]:
        return [*super().label, f"t{self.trust:g}"]


@dataclass(frozen=True)
class Timid(Tolerance):
    """The exact rule, with fewer accepted."""

    trust: float = 1.0

    @classmethod
    def build(cls, config: TimidConfig, artefacts: Artefacts) -> Self:
        return cls(trust=config.trust)

    def accept(self, target_probs: Tensor, draft_probs: Tensor, *drawn: Tensor) -> Tensor:
        return super().accept(self.trust * target_probs, draft_probs, *drawn)

    def residual(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return target_probs - torch.minimum(self.trust * target_probs, draft_probs)


@dataclass
class AgainConfig(DrafterConfig):
    """A drafter's settings."""

    built_by = "toys:Again.build"
    name: str = "again"


@dataclass(frozen=True)
class Again:
    """The newest token is said again: a drafter and its drafts in one, for it remembers nothing."""

    vocab_size: int
    reach: ClassVar[None] = None

    @classmethod
    def build(cls, config: AgainConfig, parts: Builder) -> Self:
        return cls(parts.target.vocab_size)

    def start(self, size: Size) -> Self:
        return self

    def load(self, requests: list[Request]) -> None:
        pass

    def row(self, index: int) -> Self:
        return self

    def propose(self, rows: BatchState, sampler: Sampler, lookahead: int) -> tuple[PerRow, Laws]:
        guess = rows.last(1).expand(-1, lookahead)
        rows.tokens.scatter_(1, rows.positions(lookahead), guess)
        laws = torch.nn.functional.one_hot(guess, self.vocab_size).float()
        return up_to_stop(rows, room(rows, lookahead), lookahead), laws

    def native(self, sampler: Sampler, lookahead: int) -> None:
        return None

    def observe(self, hidden: States, accepted: PerRow) -> None:
        pass


class Nothing:
    """What a model keeps that looks one token back."""

    def row(self, index: int) -> Self:
        return self


class Bigrams:
    """A family: speech.json, and in bigrams.json the seed of a table of logits."""

    step_bytes, device = 0, torch.device("cpu")

    def __init__(self, folder: Path) -> None:
        self.layout = SpeechLayout.from_folder(folder)
        self.vocab_size = self.layout.speech_vocab_size
        seed = json.loads((folder / "bigrams.json").read_text())["seed"]
        random = torch.Generator().manual_seed(seed)
        self._table = torch.randn(self.vocab_size, self.vocab_size, generator=random)

    def cache(self, batch: int, capacity: int) -> Nothing:
        return Nothing()

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        return self.layout.prompt_ids(prompt)

    def prompt(self, rows: list[int]) -> Tensor:
        return torch.tensor(self.speech_ids(rows)[-1:])

    def speech_ids(self, rows: list[int]) -> list[int]:
        return [row for row in rows if row < self.vocab_size]

    def append(self, prompt: Tensor, ids: Tensor) -> Tensor:
        return torch.cat([prompt, ids])

    def prefill_hidden(self, prompts: list[Tensor], cache: Nothing) -> Tensor:
        return torch.stack([self._table[prompt[-1]] for prompt in prompts])

    def extend_hidden(
        self,
        ids: Tensor,
        cache: Nothing,
        start: Tensor,
        keep: int | None = None,
    ) -> Tensor:
        return self._table[ids[:, -(keep or ids.shape[1]) :]]

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def prefill(self, *given: Any) -> Tensor:
        return self.prefill_hidden(*given)

    def extend(self, *given: Any) -> Tensor:
        return self.extend_hidden(*given)


BIGRAMS = families.Family(
    "bigrams",
    "bigrams.json",
    lambda folder: (folder / "bigrams.json").is_file(),
    lambda config: SpeechLayout.from_folder(Path(config.path)),
    lambda config, **_: Bigrams(Path(config.path)),
    lambda config: Bigrams(Path(config.path))._table,
)


@dataclass(frozen=True)
class Loudness(Opinion):
    """A judge, and the metric that it measures."""

    metric: ClassVar = "loudest"
    id: ClassVar = "loudest-sample"
    version: ClassVar = "1"
    options: ClassVar[dict[str, Any]] = {}

    def missing(self) -> None:
        return None

    def load(self) -> Measure:
        return self.measure

    @staticmethod
    def measure(wave: Wave) -> float:
        return float(abs(wave).max())


METRICS = {
    "loudest": Metric("Loudest", judge="loudest", columns=each("loudest"), listed=True),
}


def register() -> None:
    """The line of each registry."""
    families.FAMILIES = (BIGRAMS, *families.FAMILIES)
    registry.JUDGES["loudest"] = lambda *_: Loudness()
    registry.METRICS |= METRICS


def write_configs(folder: Path, target: CheckpointConfig) -> None:
    """The YAML of those that have one."""
    texts = {
        "target/bigrams": f"name: {target.name}\npath: {target.path}\n",
        "judges/loudest": "# @package _global_\nmetrics: [loudest]\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.yaml").write_text(text)


def main() -> int:
    """A command with the toys: `decode key=value ...`."""
    from importlib import import_module

    register()
    name, *settings = sys.argv[1:]
    return int(import_module(f"speculative_tts.commands.{name}").main(settings))
