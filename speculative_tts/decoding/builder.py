"""Build an engine from its settings: models, codec, drafter and rule."""

import logging
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
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
from speculative_tts.decoding.blocks.build import (
    MultiToken,
    Target,
    build_multi_token,
    left_out,
)
from speculative_tts.decoding.drafters.drafter import CacheReader, Drafter
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.loops.graphs import EAGER, Graphs, cuda_graph
from speculative_tts.decoding.loops.native_steps import SAMPLERS
from speculative_tts.decoding.loops.paying import Paying
from speculative_tts.decoding.loops.speculation import Speculation, native_rule
from speculative_tts.decoding.model_cache import ModelCache, folder_size
from speculative_tts.decoding.rules.acceptance import AcceptanceRule
from speculative_tts.decoding.sampling.settings import completed, sampler_of
from speculative_tts.models.families.code_lm import CodeLM
from speculative_tts.models.families.registry import load_layout, load_refiner, load_speech_lm
from speculative_tts.models.gpu import triton_runtime
from speculative_tts.models.host import readable
from speculative_tts.models.recurrent import RecurrentLayer, load_layer
from speculative_tts.models.slots import slots_of
from speculative_tts.models.speech_lm import Layout, Refiner, SpeechLM, by_depth
from speculative_tts.native.library import kernel_label, library, select
from speculative_tts.provenance import content_hash
from speculative_tts.schema.common import CheckpointConfig, CodecConfig, Similarity
from speculative_tts.schema.decode import (
    BY_HEADS,
    Capture,
    EngineConfig,
    SamplingConfig,
    Speculate,
    System,
)
from speculative_tts.schema.drafters import RecurrentDrafterConfig
from speculative_tts.schema.rules import GroupRule

Loaded = TypeVar("Loaded")
logger = logging.getLogger(__name__)


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
        triton_runtime.require(self.device)
        captures = self.device.type == "cuda" and config.runtime.graphs is Capture.auto
        self.graphs = Graphs(cuda_graph) if captures else EAGER
        self.dtype: torch.dtype = getattr(torch, config.runtime.dtype.value)
        self.layout: Layout = load_layout(config.target)
        self.sampling: SamplingConfig = completed(config.sampling, self.layout.sampling)
        self.sampler = sampler_of(self.sampling, self.layout)

    @cached_property
    def codec(self) -> Codec:
        """The codec of the target's codes."""
        name, path = self.config.codec.name, self.config.codec.path
        codec = self.keep(("codec", name), path, lambda: load_codec(name, Path(path)))
        check_codec(codec, path, self.layout, self.config.target.path)
        return codec

    @cached_property
    def refiner(self) -> Refiner | None:
        """The model that fills further layers of codes, where the codec has them."""
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
        check_pair(self.layout, load_layout(draft), self.sampling)
        return self.target if given.path == like.path else self._loaded(draft)

    @cached_property
    def multi(self) -> MultiToken:
        """The target's multi-token heads, and who chooses among them."""
        if by_depth(self.layout):
            raise ValueError(
                "heads of one model draft no target with a depth decoder; give drafter=codebooks, "
                "or method=target"
            )
        made = build_multi_token(
            self.config.heads,
            self.config.viterbi,
            Target(
                self.config.target,
                self.config.codec,
                self.layout.n_codes,
                self.layout.stop_ids,
                self._width,
                self.dtype,
                self.device,
            ),
            self.sampler,
            self.keep,
        )
        self.facts["multi_token"] = made.facts
        return made

    @cached_property
    def groups(self) -> Entry:
        """The rule's groups, found in the cache or made now."""
        assert isinstance(self.config.rule, GroupRule), "checked by the command"
        config, of = self.config.rule.groups, content_hash(Path(self.config.codec.path))
        key = ("groups", repr(config), of)  # memory-mapped, hence of no size
        made = self.keep(
            key, self.config.target.path, lambda: acoustic_groups(config, self._sources), size=0
        )
        self.facts["groups"] = made.facts
        return made

    @property
    def memberships(self) -> Mapping[str, Tensor]:
        """See `Artefacts`."""
        return tensors(self.groups, self.device, self._width)

    def nearest(self, source: Similarity, number: int) -> Tensor:
        """See `Artefacts`."""
        slots = slots_of(self.layout)
        return nearest(self._code_vectors(source), number, slots.ranges if slots else ())

    def code_vectors(self, source: Similarity) -> Tensor:
        """See `Artefacts`."""
        return normalise(self._code_vectors(source))

    readable = staticmethod(readable)

    def _code_vectors(self, source: Similarity) -> Tensor:
        """Return one vector per row of the head; NaN for rows that are no code."""
        known = code_vectors(source, self._sources)
        return functional.pad(known, (0, 0, 0, self._width - len(known)), value=torch.nan)

    @property
    def lookahead(self) -> int:
        """Tokens drafted a round."""
        return int(self.config.lookahead)

    @property
    def _width(self) -> int:
        return self.layout.width(text_rows=bool(self.sampling.text_rows))

    @property
    def _sources(self) -> Sources:
        target, codec = self.config.target, self.config.codec
        return Sources(Path(target.path), (codec.name, Path(codec.path)), self.device, target.rows)

    def recurrent_layer(self, given: RecurrentDrafterConfig, target: CodeLM) -> RecurrentLayer:
        """Return the layer of these settings on the states of `target`."""
        path, dtype = Path(self.config.target.path), getattr(torch, given.dtype.value)
        folder = require(Path(given.path))
        head = ("recurrent", content_hash(path), self.sampling.text_rows)
        self.facts["recurrent"] = content_hash(folder)
        return self.keep(
            (*head, self.dtype, dtype, self.device, given.codes, self.sampler.slots),
            given.path,
            lambda: load_layer(
                folder,
                target=path,
                head=target.head,
                dtype=dtype,
                device=self.device,
                codes=given.codes,
                slots=self.sampler.slots,
            ),
        )

    def speculation(self) -> Speculation:
        """Return the drafter, the target that verifies, and the rule."""
        config, slots = self.config, slots_of(self.layout)
        if by_depth(self.layout) and slots and self.lookahead >= len(slots.sizes):
            raise ValueError(
                f"lookahead {self.lookahead} is a frame of {len(slots.sizes)} codes or more, and a "
                "draft may reach into the next frame alone; lower it"
            )
        drafter: Drafter | CacheReader = resolve_name(config.drafter.built_by)(config.drafter, self)
        # the last: groups take long to make
        rule: AcceptanceRule = resolve_name(config.rule.built_by)(config.rule, self)
        if self.device.type == "cpu" and library() is not None:  # the target's own steps are native
            if type(self.sampler) not in SAMPLERS:
                self.facts["in_python"] = f"sampler {type(self.sampler).__name__}"
            elif native_rule(rule) is None:
                self.facts["in_python"] = f"rule {config.rule.name}"
        given = (self.sampler, self.layout.stop_ids, self.lookahead)
        target = drafter.verifier if isinstance(drafter, CacheReader) else self.target
        return Speculation(target, drafter, rule, *given)

    def engine(self, system: System = System.speculative) -> Engine:
        """Return an engine with what `system` decodes with, and the target alone beside it."""
        if by_depth(self.layout) and system is System.uncached:
            raise ValueError("a target with a depth decoder is never uncached; give method=target")
        codec, config, speculates = self.codec, self.config, system is System.speculative
        speculation = self.speculation() if speculates else None
        multi = self.multi if system in BY_HEADS else None
        drafts = system is System.draft or (speculates and "draft" in config.drafter.reads)
        draft = self.draft if drafts else None
        pays = speculates and config.runtime.speculate is Speculate.paying
        given = (self.target, codec, self.sampling, self.refiner, self.facts, self.graphs)
        by_heads = multi is not None or (speculates and "viterbi" in config.drafter.reads)
        if by_heads and (note := left_out(config.viterbi, self.sampler)):
            logger.warning(note)  # the last: a mistake is told alone
        return Engine(*given, draft, speculation, multi, Paying(self.graphs) if pays else None)

    def _loaded(self, checkpoint: CheckpointConfig) -> SpeechLM:
        options: dict[str, Any] = {
            "dtype": self.dtype,
            "device": self.device,
            "text_rows": self.sampling.text_rows,
        }
        prompt = (repr(checkpoint.rows), checkpoint.instruction)
        key = ("lm", *prompt, *options.values())
        return self.keep(key, checkpoint.path, lambda: load_speech_lm(checkpoint, **options))

    def keep(
        self,
        key: tuple[Hashable, ...],
        path: str,
        load: Callable[[], Loaded],
        size: int | None = None,
    ) -> Loaded:
        """Return what is loaded from `path`, cached by its content and the kernels that compute."""
        place = Path(path)
        size = folder_size(place) if size is None else size
        key = (*key, kernel_label(self.config.runtime), content_hash(place))
        return self._kept.get(key, size, load)


def _check_layers(config: CodecConfig, codec: Codec, refiner: Refiner | None) -> None:
    have, need = codec.n_layers, 1 if refiner is None else refiner.n_layers
    if have != need:
        raise ValueError(
            f"codec {config.path} has {have} layers of codes, the target makes {need}; "
            "give the codec that the target was trained with"
        )


def check_pair(target: Layout, draft: Layout, sampling: SamplingConfig) -> None:
    """Raise ValueError unless codes and stop ids agree and, if text may be emitted, all rows."""
    a, b = (dict(layout.shared) for layout in (target, draft))
    if sampling.text_rows:
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
