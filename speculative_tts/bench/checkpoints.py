"""Time the checkpoints of a target and its drafters, in one process or in several.

A process keeps its luck with memory for all its prompts, so several say how far its speeds reach
beyond it. Each is a new one, loads its own models, and continues every prompt by every system in
turn, and times rounds, single steps and memory; they follow each other. Which lookaheads are timed
whole is of the first.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from speculative_tts.bench import engine, search, systems
from speculative_tts.bench.asked import asked_of
from speculative_tts.bench.engine import Continuation, Decode, Times, continuations
from speculative_tts.bench.huggingface import of_checkpoints
from speculative_tts.bench.roofline import limits
from speculative_tts.costs.lookahead import LookaheadCost
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.model_cache import process_cache
from speculative_tts.models.speech_lm import by_depth
from speculative_tts.progress import progress
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.schema.drafters import LMDrafterConfig
from speculative_tts.workers import afresh


@dataclass(frozen=True)
class Parts:
    """The figures of one process beside whole continuations: rounds, single steps, memory."""

    lookaheads: dict[str, list[LookaheadCost]]
    steps: dict[str, float]
    group_rule: dict[str, float]
    path_search: dict[str, float]
    bytes_per_second: dict[str, float]


@dataclass(frozen=True)
class ProcessFigures:
    """The figures of one process."""

    whole: Times  # continuations
    parts: Parts


@dataclass(frozen=True)
class Checkpoints:
    """Hold the engines that one process times: the target's, and those that draft."""

    config: BenchConfig

    @cached_property
    def engine(self) -> Engine:
        """The target and its draft; raise ValueError for a target whose steps are not timed."""
        config, lookahead = self.config, 1 if self.config.seeks_lookahead else self.config.lookahead
        fixed = dataclasses.replace(config, drafter=LMDrafterConfig(), lookahead=lookahead)
        engine = Builder(fixed, process_cache(config.runtime.device.value)).engine()
        if by_depth(engine.target.layout):
            raise ValueError(
                f"{config.target.path} has a depth decoder, whose steps sst-bench does not time; "
                "give another target, or look at a run's own seconds (sst-decode)"
            )
        return engine

    @cached_property
    def engines(self) -> Mapping[str, Engine]:
        """Engines that speculate, by drafter and rule."""
        models = process_cache(self.config.runtime.device.value)
        return systems.speculative(self.config, self.engine, models)

    @cached_property
    def prompts(self) -> list[Continuation]:
        """Prompts of the test list, each to be continued by exactly config.tokens tokens."""
        number, prompts = self.config.tokens, []
        for one in asked_of(self.config, self.engine):
            request = dataclasses.replace(one.request, min_tokens=number, max_tokens=number)
            prompts.append(Continuation(request, self.engine.target.prompt_ids(one.prompt)))
        return prompts

    def continued(self, drafted: systems.Lookaheads) -> Times:
        """Time all continuations by every system, drafting so many tokens, in this process."""
        decodes: dict[str, Decode] = systems.ours(
            self.config,
            self.engine,
            process_cache(self.config.runtime.device.value),
            self.engines,
            drafted,
        )
        if self.config.transformers:
            decodes |= of_checkpoints(self.config, self.engine)
        with progress(total=len(self.prompts), desc="continuations", unit="prompt") as bar:
            return continuations(decodes, self.prompts, bar.update)

    @property
    def context(self) -> int:
        """Cached positions at which single steps are timed: half way through a continuation."""
        return len(self.prompts[0].request.prompt) + self.config.tokens // 2

    @property
    def read(self) -> dict[str, int]:
        """The bytes of weights that a step of each model reads."""
        return systems.bytes_read(self.engine, self.engines)

    def timed(self, drafted: systems.Lookaheads | None = None) -> ProcessFigures:
        """Time all of it in this process; without `drafted`, at the lookaheads that pay here."""
        config, device = self.config, self.engine.target.device
        pays = systems.lookaheads(self.engines, self.prompts)
        whole = self.continued(systems.drafted(config, pays) if drafted is None else drafted)
        heads, block = systems.heads_of(config, self.engine), search.PATH_SEARCH[1]
        parts = Parts(
            pays,
            engine.step_costs(self.engine, heads, self.context, block, config.steps),
            engine.group_rule_costs(*engine.GROUP_RULE, 30, device),
            search.search_costs(*search.PATH_SEARCH, config.steps, device),
            limits(self.read, config.runtime.threads),
        )
        return ProcessFigures(whole, parts)


def timed(here: Checkpoints) -> list[ProcessFigures]:
    """Return what this process measures, and then each other of `processes` that are asked for."""
    first = here.timed()
    drafted = systems.drafted(here.config, first.parts.lookaheads)
    others = [(here.config, drafted)] * (here.config.processes - 1)
    return [first, *afresh(_elsewhere, others)]


def _elsewhere(piece: tuple[BenchConfig, systems.Lookaheads]) -> ProcessFigures:
    config, drafted = piece
    return Checkpoints(config).timed(drafted)
