"""The parts of an engine, each made from its settings when it is asked for: models, codec, rule."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from speculative_tts.assets import require
from speculative_tts.caches.groups import normalise
from speculative_tts.caches.provide import (
    Sources,
    acoustic_groups,
    check_codec,
    code_vectors,
    tensors,
)
from speculative_tts.caches.store import Entry
from speculative_tts.caches.vectors import nearest
from speculative_tts.codecs.registry import Codec, load_codec
from speculative_tts.decoding.blocks.build import MultiToken, Target, build_multi_token
from speculative_tts.decoding.drafters.drafter import Drafter
from speculative_tts.decoding.drafters.heads import HeadsDrafter, check_lookahead
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.drafters.lookup import LookupDrafter
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.loops.graphs import EAGER, Graphs, cuda_graph
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.model_cache import ModelCache, folder_size
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.block import Block
from speculative_tts.decoding.rules.group import Group
from speculative_tts.decoding.rules.relaxed import Divergence, Dynamic, Neighbours, Top, Typical
from speculative_tts.decoding.sampling.settings import Settings, sampler_of, with_defaults
from speculative_tts.models.families.code_lm import CodeLM
from speculative_tts.models.families.registry import load_layout, load_refiner, load_speech_lm
from speculative_tts.models.host import readable
from speculative_tts.models.recurrent import load_layer
from speculative_tts.models.speech_lm import Layout, Refiner, SpeechLM
from speculative_tts.native.library import kernel_label, select
from speculative_tts.provenance import content_hash
from speculative_tts.schema.common import CheckpointConfig, CodecConfig, Similarity
from speculative_tts.schema.decode import (
    Capture,
    DrafterConfig,
    EngineConfig,
    HeadsDrafterConfig,
    LMDrafterConfig,
    LookupDrafterConfig,
    RecurrentDrafterConfig,
    System,
)
from speculative_tts.schema.rules import (
    DivergenceRule,
    DynamicRule,
    ExactRule,
    GroupRule,
    NeighboursRule,
    RuleConfig,
    ToleranceRule,
    TopRule,
    TypicalRule,
)

Loaded = TypeVar("Loaded")


class Builder:
    """The parts of a configuration, each loaded when it is first asked for.

    Raises ValueError for settings that cannot work; `facts` say which caches and heads were used.
    """

    def __init__(self, config: EngineConfig, kept: ModelCache | None = None) -> None:
        if config.runtime.device.name == "cuda" and not torch.cuda.is_available():
            raise ValueError(
                "runtime.device=cuda needs a GPU that torch can see; use runtime.device=cpu"
            )
        torch.set_num_threads(config.runtime.threads)
        select(config.runtime.kernels)
        self.config, self._kept = config, kept or ModelCache(0)
        self.facts: dict[str, Any] = {}
        self.device = torch.device(config.runtime.device.value)
        captures = self.device.type == "cuda" and config.runtime.graphs is Capture.auto
        self.graphs = Graphs(cuda_graph) if captures else EAGER
        self.dtype: torch.dtype = getattr(torch, config.runtime.dtype.value)
        self.layout: Layout = load_layout(config.target)
        self.settings: Settings = with_defaults(config.sampling, self.layout.sampling)
        self.sampler = sampler_of(self.settings, self.layout)

    @cached_property
    def codec(self) -> Codec:
        """The codec of the target's codes."""
        name, path = self.config.codec.name, self.config.codec.path
        codec = self._keep(("codec", name), path, lambda: load_codec(name, Path(path)))
        check_codec(codec, path, self.layout, self.config.target.path)
        return codec

    @cached_property
    def refiner(self) -> Refiner | None:
        """What fills further layers of codes, where the codec has them."""
        refiner = load_refiner(self.config.target, dtype=self.dtype, device=self.device)
        _check_layers(self.config.codec, self.codec, refiner)
        return refiner

    @cached_property
    def target(self) -> SpeechLM:
        """The target."""
        return self._loaded(self.config.target)

    @cached_property
    def draft(self) -> SpeechLM:
        """The draft, writing prompts as its target does; the target itself where it is the same."""
        like, given = self.config.target, self.config.draft
        draft = replace(given, rows=like.rows, instruction=like.instruction)
        check_pair(self.layout, load_layout(draft), self.settings)
        return self.target if given.path == like.path else self._loaded(draft)

    @cached_property
    def multi(self) -> MultiToken:
        """The target's multi-token heads, and who chooses among them."""
        made = build_multi_token(
            self.config.heads,
            self.config.viterbi,
            Target(
                self.config.target,
                self.config.codec,
                self.layout.n_codes,
                self.layout.stop_ids,
                self.layout.width(text_rows=self.settings.text_rows),
                self.dtype,
                self.device,
            ),
            self.sampler,
            self._keep,
        )
        self.facts["multi_token"] = made.facts
        return made

    @cached_property
    def groups(self) -> Entry:
        """The rule's groups, found in the cache or made now."""
        assert isinstance(self.config.rule, GroupRule), "checked by the command"
        config, of = self.config.rule.groups, content_hash(Path(self.config.codec.path))
        key = ("groups", repr(config), of)  # memory-mapped, hence of no size
        made = self._keep(
            key, self.config.target.path, lambda: acoustic_groups(config, self._sources), size=0
        )
        self.facts["groups"] = made.facts
        return made

    def group_rule(self) -> Group:
        """PCG's rule."""
        width = self.layout.width(text_rows=self.settings.text_rows)
        return Group(**tensors(self.groups, self.device, width), readable=readable)

    def neighbours(self, rule: NeighboursRule) -> Neighbours:
        """LANTERN's rule."""
        vectors = self._code_vectors(rule.source)
        return Neighbours(nearest(vectors, rule.k), rule.delta, rule.ratio)

    def dynamic(self, rule: DynamicRule) -> Dynamic:
        """GSD's rule."""
        vectors = normalise(self._code_vectors(rule.source))
        return Dynamic(vectors, rule.reach, rule.gap, rule.distance)

    def _code_vectors(self, source: Similarity) -> Tensor:
        """Of each row of the head; NaN of one that is no sound."""
        known = code_vectors(source, self._sources)
        width = self.layout.width(text_rows=self.settings.text_rows)
        return functional.pad(known, (0, 0, 0, width - len(known)), value=torch.nan)

    @property
    def _sources(self) -> Sources:
        target, codec = self.config.target, self.config.codec
        return Sources(Path(target.path), (codec.name, Path(codec.path)), self.device, target.rows)

    def heads_drafter(self) -> HeadsDrafter:
        """The heads as a drafter."""
        check_lookahead(self.config.drafted, self.multi.heads)
        return HeadsDrafter(self.multi.heads, self.multi.choose)

    def lookup(self, given: LookupDrafterConfig) -> LookupDrafter:
        """Copies of what was said before."""
        if given.shortest > given.longest:
            raise ValueError(
                f"drafter.shortest {given.shortest} is above drafter.longest {given.longest}; "
                "lower the one or raise the other"
            )
        size, device = self.target.vocab_size, self.device
        return LookupDrafter(size, device, given.longest, given.shortest)

    def recurrent(self, given: RecurrentDrafterConfig) -> RecurrentDrafter:
        """A layer on the target's states, with its embedding and its head."""
        target, path = self.target, self.config.target.path
        if not isinstance(target, CodeLM):
            raise ValueError(
                f"drafter=recurrent feeds codes as rows of an embedding, which {path} is not fed; "
                "give drafter=heads or drafter=lm"
            )
        folder, dtype = require(Path(given.path)), getattr(torch, given.dtype.value)
        layer = self._keep(
            (
                *("recurrent", content_hash(Path(path)), self.settings.text_rows),
                *(self.dtype, dtype, self.device, given.codes),
            ),
            given.path,
            lambda: load_layer(
                folder,
                target=Path(path),
                head=target.head,
                dtype=dtype,
                device=self.device,
                codes=given.codes,
            ),
        )
        self.facts["recurrent"] = content_hash(folder)
        return RecurrentDrafter(target, layer)

    def speculation(self) -> Speculation:
        """Who proposes, who verifies, and by which rule."""
        config = self.config
        drafter = DRAFTERS[type(config.drafter)](config.drafter, self)
        rule = RULES[type(config.rule)](config.rule, self)  # the last: groups take long to make
        given = (self.sampler, self.layout.stop_ids, config.drafted)
        return Speculation(self.target, drafter, rule, *given)

    def _loaded(self, checkpoint: CheckpointConfig) -> SpeechLM:
        options: dict[str, Any] = {
            "dtype": self.dtype,
            "device": self.device,
            "text_rows": self.settings.text_rows,
        }
        prompt = (repr(checkpoint.rows), checkpoint.instruction)
        key = ("lm", *prompt, *options.values())
        return self._keep(key, checkpoint.path, lambda: load_speech_lm(checkpoint, **options))

    def _keep(
        self,
        key: tuple[Hashable, ...],
        path: str,
        load: Callable[[], Loaded],
        size: int | None = None,
    ) -> Loaded:
        """What is loaded from `path`, by its content and for the kernels that are to compute."""
        place = Path(path)
        size = folder_size(place) if size is None else size
        key = (*key, kernel_label(self.config.runtime), content_hash(place))
        return self._kept.get(key, size, load)


RULES: dict[type[RuleConfig], Callable[[Any, Builder], AcceptanceRule]] = {
    ExactRule: lambda rule, _: Block() if rule.block else Tolerance(0.0),
    ToleranceRule: lambda rule, _: Tolerance(rule.beta),
    TypicalRule: lambda rule, _: Typical(rule.epsilon, rule.alpha),
    TopRule: lambda rule, _: Top(rule.k, rule.delta),
    DivergenceRule: lambda rule, _: Divergence(rule.most),
    NeighboursRule: lambda rule, parts: parts.neighbours(rule),
    DynamicRule: lambda rule, parts: parts.dynamic(rule),
    GroupRule: lambda rule, parts: Block(parts.group_rule()) if rule.block else parts.group_rule(),
}
DRAFTERS: dict[type[DrafterConfig], Callable[[Any, Builder], Drafter]] = {
    LMDrafterConfig: lambda drafter, parts: LMDrafter(parts.draft, drafter.entropy),
    HeadsDrafterConfig: lambda _, parts: parts.heads_drafter(),
    LookupDrafterConfig: lambda drafter, parts: parts.lookup(drafter),
    RecurrentDrafterConfig: lambda drafter, parts: parts.recurrent(drafter),
}


def _check_layers(config: CodecConfig, codec: Codec, refiner: Refiner | None) -> None:
    have, need = codec.n_layers, 1 if refiner is None else refiner.n_layers
    if have != need:
        raise ValueError(
            f"codec {config.path} has {have} layers of codes, the target makes {need}; "
            "give the codec that the target was trained with"
        )


def check_pair(target: Layout, draft: Layout, settings: Settings) -> None:
    """Codes and stop ids must agree; where text rows may be emitted, all rows."""
    a, b = (dict(layout.shared) for layout in (target, draft))
    if settings.text_rows:
        a["vocabulary"], b["vocabulary"] = (
            getattr(layout, "vocabulary", None) for layout in (target, draft)
        )
    for name, value in a.items():
        other = b.get(name)
        if value != other:
            raise ValueError(
                f"target and draft have different vocabularies ({name}: {_short(value)} "
                f"and {_short(other)}); give draft=<its own>, train one from this target, or "
                "draft=itself (drafter=heads or recurrent need no model)"
            )


def _short(value: object) -> str:
    return (
        f"{len(value)} words"
        if isinstance(value, tuple) and value and isinstance(value[0], str)
        else str(value)
    )


def build_engine(
    config: EngineConfig, system: System = System.speculative, kept: ModelCache | None = None
) -> Engine:
    """Check the settings, then load what `system` needs, and the target alone beside it.

    What is `kept` is not loaded again.
    """
    parts, speculates = Builder(config, kept), system is System.speculative
    codec = parts.codec
    speculation = parts.speculation() if speculates else None
    drafts = speculates and isinstance(config.drafter, LMDrafterConfig)
    return Engine(
        parts.target,
        codec,
        parts.sampler,
        parts.settings,
        parts.draft if drafts or system is System.draft else None,
        speculation,
        parts.multi if system is System.multi_token else None,
        parts.refiner,
        parts.facts,
        parts.graphs,
    )
