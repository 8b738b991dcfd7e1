"""Build the source of a run's audio from its settings: an engine, or another.

An engine's utterances are timed in several processes if asked for, since a process keeps its luck
with memory for all its utterances. Each is a new one, loads its own models, and decodes every
utterance by the system and by the target alone in turn. They follow each other; the memory's speed
is measured in each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from speculative_tts.codecs.registry import load_codec
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.model_cache import process_cache
from speculative_tts.native.library import kernel_label
from speculative_tts.provenance import content_hash, plain, source_hash
from speculative_tts.records import DecodeRecord, ListItem
from speculative_tts.runs.clocks import Clocks
from speculative_tts.runs.folder import shared_caches
from speculative_tts.runs.run import AudioSource
from speculative_tts.runs.sources.engine import EngineSource
from speculative_tts.runs.sources.recordings import RecordedSource
from speculative_tts.runs.sources.swap import SwapSource
from speculative_tts.runs.target_tokens import TargetTokens
from speculative_tts.runs.voices import Voices
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.decode import DecodeConfig, RuntimeConfig, SamplingConfig, System
from speculative_tts.workers import afresh


def build_source(config: DecodeConfig, swapped: Mapping[str, DecodeRecord]) -> AudioSource:
    """Return the source of a run's audio; `swapped` are records that system=swap starts from."""
    if config.system in {System.codec, System.reference}:
        codec = load_codec(config.codec.name, Path(config.codec.path))
        return RecordedSource(codec, through=config.system is System.codec, seed=config.seed)
    models = process_cache(config.runtime.device.value)
    parts = Builder(config, models)
    shared = shared_caches(config.out, config.cache)
    voices = Voices(parts.codec, content_hash(Path(config.codec.path)), shared)
    if config.system is System.swap:
        groups, facts = parts.groups.arrays, parts.facts
        return SwapSource(parts.codec, groups, swapped, facts, parts.sampling, voices)
    engine = parts.engine(config.system)
    known = TargetTokens(shared, made_by(engine.sampling, config.target, config.runtime))
    return EngineSource(engine, config, voices, known, partial(elsewhere, config))


def elsewhere(config: DecodeConfig, items: list[ListItem]) -> Iterator[Clocks]:
    """Yield clocks of the utterances from each of `config.processes` processes but this one."""
    alone = replace(config, processes=1, workers=1, instrument=0, timing=None)
    return afresh(_clocked, [(alone, items)] * (config.processes - 1))


def _clocked(piece: tuple[DecodeConfig, list[ListItem]]) -> Clocks:
    """Time utterances in this process, which was made for it."""
    config, items = piece
    source = build_source(config, {})
    assert isinstance(source, EngineSource), "nothing else is timed"
    source.start(items, items)
    return source.clocks(items)


def made_by(
    sampling: SamplingConfig, target: CheckpointConfig, runtime: RuntimeConfig
) -> dict[str, Any]:
    """Return all that decides a target's tokens besides requests, as the key of their store."""
    return {
        "target": content_hash(Path(target.path)),
        "rows": plain(target.rows),
        "sampler": plain(sampling),
        "dtype": runtime.dtype.name,
        "kernels": kernel_label(runtime),
        "code": source_hash("decoding", "models", "native"),
    }
