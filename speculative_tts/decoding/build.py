"""From configuration to what a run decodes with: an engine, or another source of audio."""

import functools
import os
from collections.abc import Mapping
from pathlib import Path

import torch

from speculative_tts.codecs.registry import Codec, load_codec
from speculative_tts.decoding.decoded import Decoded
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.kept import Kept
from speculative_tts.decoding.naming import kernels
from speculative_tts.decoding.parts import Parts
from speculative_tts.decoding.recordings import Recordings
from speculative_tts.decoding.run import AudioSource
from speculative_tts.decoding.swap import Swapped
from speculative_tts.decoding.target_tokens import TargetTokens
from speculative_tts.decoding.voices import Voices
from speculative_tts.provenance import content_hash, plain, source_hash
from speculative_tts.records import DecodeRecord
from speculative_tts.schema.decode import (
    BY_HEADS,
    DecodeConfig,
    EngineConfig,
    LMDrafterConfig,
    System,
)


def build_engine(
    config: EngineConfig, system: System = System.speculative, kept: Kept | None = None
) -> Engine:
    """Check the settings, then load what `system` needs, and the target alone beside it.

    What is `kept` is not loaded again.
    """
    parts, speculates = Parts(config, kept), system is System.speculative
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
        parts.multi if system in BY_HEADS else None,
        parts.refiner,
        parts.facts,
        parts.graphs,
    )


def build_source(config: DecodeConfig, swapped: Mapping[str, DecodeRecord]) -> AudioSource:
    """Where a run's audio comes from; `swapped` are the records that system=swap starts from."""
    if config.system in {System.codec, System.reference}:
        codec = load_codec(config.codec.name, Path(config.codec.path))
        return Recordings(codec, through=config.system is System.codec, seed=config.seed)
    if config.system is System.swap:
        parts = Parts(config, kept(config))
        voices = _voices(config, parts.codec)
        groups, facts = parts.groups.arrays, parts.facts
        return Swapped(parts.codec, groups, swapped, facts, parts.settings, voices)
    engine = build_engine(config, config.system, kept(config))
    return Decoded(engine, config, _voices(config, engine.codec), _target_tokens(config, engine))


@functools.cache
def _memory(device: str) -> Kept:
    """What runs of this process keep on a device: up to half its memory."""
    if device == "cuda" and torch.cuda.is_available():  # else `Parts` says that there is none
        return Kept(torch.cuda.mem_get_info()[1] / 2)
    return Kept(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2)


def kept(config: EngineConfig) -> Kept:
    """What runs of this process keep where this one computes."""
    return _memory(config.runtime.device.value)


def shared(config: DecodeConfig) -> Path:
    """The folder of what runs share."""
    return Path(config.out) / ".caches" if config.cache is None else Path(config.cache)


def _voices(config: DecodeConfig, codec: Codec) -> Voices:
    return Voices(codec, content_hash(Path(config.codec.path)), shared(config))


def _target_tokens(config: DecodeConfig, engine: Engine) -> TargetTokens:
    """Where tokens of this target with this sampler lie: all that decides them besides requests."""
    made_by = {
        "target": content_hash(Path(config.target.path)),
        "rows": plain(config.target.rows),
        "sampler": plain(engine.settings),
        "dtype": config.runtime.dtype.name,
        "kernels": kernels(config.runtime),
        "code": source_hash("decoding", "models"),
    }
    return TargetTokens(shared(config), made_by)
