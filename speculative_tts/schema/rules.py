"""Settings of acceptance rules, a class per rule, with its part of a run's name."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from speculative_tts.schema.common import GroupsConfig, Similarity
from speculative_tts.schema.fields import Count, Limit, NonNegative, Share, Since, Size
from speculative_tts.schema.kinds import Kind


@dataclass
class RuleConfig(Kind):
    """Acceptance rule."""

    group = "rule"
    built_by: ClassVar[str]  # a function of the settings and `decoding.rules.acceptance.Artefacts`
    marks: ClassVar[tuple[str, ...]] = ()  # settings as a run's name shows them

    @property
    def label(self) -> list[str]:
        """Its part of a run's name, such as typical, e0.3, a0.09."""
        return [self.name, *(mark.format_map(vars(self)) for mark in self.marks)]


@dataclass
class ExactRule(RuleConfig):
    """Leviathan et al.'s: the target's own distribution; block=true: Sun et al.'s, the same."""

    built_by = "speculative_tts.decoding.rules.block:exact"
    name: str = "exact"
    # judge all drafted tokens together: the same distribution, more of them accepted
    block: Annotated[bool, Since(False)] = False

    @property
    def label(self) -> list[str]:
        """exact, exact-block."""
        return [*super().label, *(["block"] if self.block else [])]


@dataclass
class ToleranceRule(RuleConfig):
    """SSD's: accept when u < min(1, q/p) + beta."""

    built_by = "speculative_tts.decoding.rules.acceptance:Tolerance.build"
    marks = ("b{beta:g}",)
    name: str = "tolerance"
    beta: Share = 0.0  # 0 is the exact rule; 1 accepts whatever is drafted


@dataclass
class GroupRule(RuleConfig):
    """PCG's: accept by groups of similar tokens; exact for the group, whatever is drafted."""

    built_by = "speculative_tts.decoding.rules.block:by_groups"
    name: str = "group"
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    # judge the groups of all drafted tokens together
    block: Annotated[bool, Since(False)] = False

    @property
    def label(self) -> list[str]:
        """group, m10 (mean size) or t0.5 (theta), block."""
        return [*super().label, *self.groups.label, *(["block"] if self.block else [])]


@dataclass
class TypicalRule(RuleConfig):
    """Medusa's: accept what is likelier than a threshold that falls with the target's entropy."""

    built_by = "speculative_tts.decoding.rules.relaxed:Typical.build"
    marks = ("e{epsilon:g}", "a{alpha:g}")
    name: str = "typical"
    epsilon: NonNegative = 0.3  # the threshold at most
    alpha: NonNegative = 0.09  # the threshold of a distribution with entropy H is alpha exp(-H)


@dataclass
class TopRule(RuleConfig):
    """LLaSA+'s: accept the target's k likeliest tokens; with delta TensorRT-LLM's."""

    built_by = "speculative_tts.decoding.rules.relaxed:Top.build"
    name: str = "top"
    k: Count = 50
    delta: Share = 1.0  # as likely as the likeliest, but for so much; 1: anything

    @property
    def label(self) -> list[str]:
        """top, 50, d0.1."""
        return [*super().label, f"{self.k}", *([f"d{self.delta:g}"] if self.delta < 1 else [])]


@dataclass
class DivergenceRule(RuleConfig):
    """FSD's: accept anything where draft and target are alike."""

    built_by = "speculative_tts.decoding.rules.relaxed:Divergence.build"
    marks = ("{most:g}",)
    name: str = "divergence"
    most: NonNegative = 0.2  # Jensen-Shannon divergence, nats; 0.69 is all


@dataclass
class NeighboursRule(RuleConfig):
    """LANTERN's: a token borrows the probability of its neighbours; ratio: LANTERN++'s."""

    built_by = "speculative_tts.decoding.rules.relaxed:Neighbours.build"
    name: str = "neighbours"
    source: Similarity = Similarity.codebook  # what near is measured on
    k: Count = 1000  # neighbours looked at
    delta: Share = 0.1  # probability borrowed at most; 0: the exact rule
    # instead (LANTERN++): own and borrowed at most so many times the own; 1: the exact rule
    ratio: Size | None = None

    @property
    def label(self) -> list[str]:
        """neighbours, 1000, d0.1 or r2."""
        most = f"d{self.delta:g}" if self.ratio is None else f"r{self.ratio:g}"
        return [*super().label, f"{self.k}", most]


@dataclass
class DynamicRule(RuleConfig):
    """GSD's: accept by groups of tokens that are alike in probability, here, and in sound."""

    built_by = "speculative_tts.decoding.rules.relaxed:Dynamic.build"
    marks = ("{reach}", "g{gap:g}", "d{distance:g}")
    name: str = "dynamic"
    source: Similarity = Similarity.embedding  # what alike is measured on
    # tokens on either side in the order of probability; 0: the exact rule
    reach: Annotated[int, Limit(0, 1000)] = 7
    gap: Share = 0.15  # between their probabilities
    distance: NonNegative = 0.5  # squared, of vectors of length 1: 2 - 2 x their cosine
