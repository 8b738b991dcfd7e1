"""From configuration to an `Engine`: models, codec, sampler and rule of one run, checked first."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import torch

from speculative_tts.assets import resolve
from speculative_tts.caches.provide import Sources, acoustic_groups, check_codec, tensors
from speculative_tts.caches.store import Entry
from speculative_tts.codecs.registry import Codec, load_codec
from speculative_tts.decoding.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.groups import Group
from speculative_tts.decoding.settings import Settings, sampler_of, with_defaults
from speculative_tts.models.families import (
    FamilyLM,
    Layout,
    Refiner,
    load_layout,
    load_refiner,
    load_speech_lm,
)
from speculative_tts.models.native.library import select
from speculative_tts.models.native.sums import sums
from speculative_tts.schema import (
    CheckpointConfig,
    CodecConfig,
    Rule,
    RuleConfig,
    RuntimeConfig,
    SamplingConfig,
)

Made = tuple[AcceptanceRule, Entry | None]  # a rule, and the groups it was made from


def group_rule(config: RuleConfig, sources: Sources, vocab_size: int) -> Made:
    """PCG's rule, its groups found in the cache or made now."""
    groups = acoustic_groups(config.groups, sources)
    return Group(**tensors(groups, sources.device, vocab_size), sums=sums), groups


RULES: dict[Rule, Callable[[RuleConfig, Sources, int], Made]] = {
    Rule.exact: lambda _, __, ___: (Tolerance(0.0), None),
    Rule.tolerance: lambda config, _, __: (Tolerance(config.beta), None),
    Rule.group: group_rule,
}


class Unread:
    """In place of a model in runs without one: what ids mean, and no weights."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout


def build_engine(
    target: CheckpointConfig,
    draft: CheckpointConfig,
    codec: CodecConfig,
    rule: RuleConfig,
    sampling: SamplingConfig,
    runtime: RuntimeConfig,
    lookahead: int,
    *,
    models: bool = True,
) -> Engine:
    """Check the settings, then load everything, weights only if `models`.

    Raises ValueError for settings that cannot work.
    """
    if lookahead < 1:
        raise ValueError(f"lookahead {lookahead} is below 1; draft at least 1 token a round")
    if runtime.device.name == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "runtime.device=cuda needs a GPU that torch can see; use runtime.device=cpu"
        )
    torch.set_num_threads(runtime.threads)
    select(runtime.kernels)
    device, dtype = torch.device(runtime.device.value), getattr(torch, runtime.dtype.value)
    # A draft writes its prompt as its target does.
    like_target = replace(draft, rows=target.rows, instruction=target.instruction)
    checkpoints = [replace(c, path=str(resolve(c.path))) for c in (target, like_target)]
    layouts = [load_layout(c) for c in checkpoints]
    layout = layouts[0]
    settings = with_defaults(sampling, layout.sampling)
    sampler = sampler_of(settings, layout)
    _check_pair(layouts[0], layouts[1], settings)
    vocab_size = layout.width(text_rows=settings.text_rows)
    sources = Sources(resolve(target.path), (codec.name, resolve(codec.path)), device, target.rows)
    acceptance, groups = RULES[rule.name](rule, sources, vocab_size)
    speech_codec = load_codec(codec.name, resolve(codec.path))
    check_codec(speech_codec, codec.path, layout, target.path)
    if not models:
        none = cast("FamilyLM", Unread(layout))
        return Engine(none, none, speech_codec, acceptance, sampler, settings, lookahead, groups)
    refiner = load_refiner(checkpoints[0], dtype=dtype, device=device)
    _check_layers(codec, speech_codec, refiner)
    target_lm, draft_lm = _load_pair(checkpoints, dtype, device, text_rows=settings.text_rows)
    return Engine(
        target_lm,
        draft_lm,
        speech_codec,
        acceptance,
        sampler,
        settings,
        lookahead,
        groups,
        refiner,
    )


def _load_pair(
    checkpoints: list[CheckpointConfig],
    dtype: torch.dtype,
    device: torch.device,
    *,
    text_rows: bool,
) -> tuple[FamilyLM, FamilyLM]:
    """Target and draft; one model when they are the same."""
    target, draft = checkpoints
    model = load_speech_lm(target, dtype=dtype, device=device, text_rows=text_rows)
    if draft.path == target.path:
        return model, model
    return model, load_speech_lm(draft, dtype=dtype, device=device, text_rows=text_rows)


def _check_layers(config: CodecConfig, codec: Codec, refiner: Refiner | None) -> None:
    have, need = codec.n_layers, 1 if refiner is None else refiner.n_layers
    if have != need:
        raise ValueError(
            f"codec {config.path} has {have} layers of codes, the target makes {need}; "
            "give the codec that the target was trained with"
        )


def _check_pair(target: Layout, draft: Layout, settings: Settings) -> None:
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
                f"and {_short(other)}); train the draft from this target"
            )


def _short(value: object) -> str:
    return (
        f"{len(value)} words"
        if isinstance(value, tuple) and value and isinstance(value[0], str)
        else str(value)
    )
