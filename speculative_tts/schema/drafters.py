"""Settings of the drafters, which propose the tokens that the target verifies."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar

from omegaconf import MISSING

from speculative_tts.schema.fields import Few, NonNegative, ReadPath, Several, Since
from speculative_tts.schema.kinds import Kind


@dataclass
class DrafterConfig(Kind):
    """The drafter, which proposes the tokens that the target verifies."""

    group = "drafter"
    built_by: ClassVar[str]  # a function of the settings and `decoding.builder.Builder`
    reads: ClassVar[tuple[str, ...]] = ()  # names of the other settings that it reads

    @property
    def label(self) -> list[str]:
        """Its part of a run's name, besides the settings that it reads."""
        return []


@dataclass
class LMDrafterConfig(DrafterConfig):
    """A second, smaller language model drafts token by token (draft.path)."""

    built_by = "speculative_tts.decoding.drafters.lm:LMDrafter.build"
    reads = ("draft",)
    name: str = "lm"
    # lookahead is the most; a round's drafts end with a token whose distribution has more entropy
    # (nats), for it is likely to be rejected; null: they do not
    entropy: Annotated[NonNegative, Since(None)] | None = None

    @property
    def label(self) -> list[str]:
        """Its part of a run's name, such as h1.5."""
        return [] if self.entropy is None else [f"h{self.entropy:g}"]


@dataclass
class HeadsDrafterConfig(DrafterConfig):
    """The target's own multi-token heads draft a block, chosen as viterbi.mode says."""

    built_by = "speculative_tts.decoding.drafters.heads:HeadsDrafter.build"
    reads = ("heads", "viterbi")
    name: str = "heads"


@dataclass
class LookupDrafterConfig(DrafterConfig):
    """Copy what followed the newest tokens when they were said before: the free baseline."""

    built_by = "speculative_tts.decoding.drafters.lookup:LookupDrafter.build"
    name: str = "lookup"
    longest: Few = 3  # tokens that must be the same, tried first
    shortest: Few = 1  # at least; without a match nothing is drafted

    @property
    def label(self) -> list[str]:
        """Its part of a run's name, such as lookup, 1-3."""
        return [self.name, f"{self.shortest}-{self.longest}"]


class DrafterDType(Enum):
    """Number format of a drafter's weights, the target's head among them."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    int8 = (
        "int8"  # with a scale for each output, by the native step; torch computes in the target's
    )


@dataclass
class RecurrentDrafterConfig(DrafterConfig):
    """A small layer on the target's hidden state and the token just drawn."""

    built_by = "speculative_tts.decoding.drafters.recurrent:RecurrentDrafter.build"
    name: str = "recurrent"
    path: ReadPath = MISSING  # the folder (sst-train-heads kind=recurrent)
    # of the layer and of the target's head where they draft: any distribution may be proposed
    dtype: DrafterDType = DrafterDType.int8
    # draft only so many codes, those most frequent in training: less of the head to read (FR-Spec)
    codes: Annotated[Several, Since(None)] | None = None

    @property
    def label(self) -> list[str]:
        """Its part of a run's name, such as recurrent, c1024."""
        return [self.name, *([] if self.codes is None else [f"c{self.codes}"])]


@dataclass
class BlockDrafterConfig(DrafterConfig):
    """Draft a block in one pass over masks: DFlash and DSpark checkpoints of speculators."""

    built_by = "speculative_tts.decoding.drafters.block:BlockDrafter.build"
    name: str = "block"
    path: ReadPath = MISSING  # the folder: config.json and weights, as speculators saves them

    @property
    def label(self) -> list[str]:
        """Its part of a run's name."""
        return [self.name]


@dataclass
class CodebooksDrafterConfig(DrafterConfig):
    """The frozen heads of a talker's codebooks draft the next codes of a frame."""

    built_by = "speculative_tts.decoding.drafters.codebooks:CodebooksDrafter.build"
    name: str = "codebooks"
    # the folder of a step for each offset (sst-train-heads kind=codebooks); null: none, the heads
    # read the newest state as it is
    path: ReadPath | None = None

    @property
    def label(self) -> list[str]:
        """Its part of a run's name, such as codebooks, plain."""
        return [self.name, *(["plain"] if self.path is None else [])]
