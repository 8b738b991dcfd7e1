"""Build the source of a run's audio from its settings: an engine, or another."""

from collections.abc import Mapping
from pathlib import Path

from speculative_tts.codecs.registry import Codec, load_codec
from speculative_tts.decoding.builder import Builder, build_engine
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.model_cache import process_cache
from speculative_tts.native.library import kernel_label
from speculative_tts.provenance import content_hash, plain, source_hash
from speculative_tts.records import DecodeRecord
from speculative_tts.runs.run import AudioSource
from speculative_tts.runs.sources.engine import EngineSource
from speculative_tts.runs.sources.recordings import RecordedSource
from speculative_tts.runs.sources.swap import SwapSource
from speculative_tts.runs.target_tokens import TargetTokens
from speculative_tts.runs.voices import Voices
from speculative_tts.schema.decode import (
    DecodeConfig,
    System,
)


def build_source(config: DecodeConfig, swapped: Mapping[str, DecodeRecord]) -> AudioSource:
    """Return the source of a run's audio; `swapped` are records that system=swap starts from."""
    if config.system in {System.codec, System.reference}:
        codec = load_codec(config.codec.name, Path(config.codec.path))
        return RecordedSource(codec, through=config.system is System.codec, seed=config.seed)
    models = process_cache(config.runtime.device.value)
    if config.system is System.swap:
        parts = Builder(config, models)
        voices = _voices(config, parts.codec)
        groups, facts = parts.groups.arrays, parts.facts
        return SwapSource(parts.codec, groups, swapped, facts, parts.sampling, voices)
    engine = build_engine(config, config.system, models)
    return EngineSource(
        engine, config, _voices(config, engine.codec), target_tokens(config, engine)
    )


def shared(config: DecodeConfig) -> Path:
    """The folder of what runs share."""
    return Path(config.out) / ".caches" if config.cache is None else Path(config.cache)


def _voices(config: DecodeConfig, codec: Codec) -> Voices:
    return Voices(codec, content_hash(Path(config.codec.path)), shared(config))


def target_tokens(config: DecodeConfig, engine: Engine) -> TargetTokens:
    """Return the store of this target's tokens, keyed by all that decides them besides requests."""
    made_by = {
        "target": content_hash(Path(config.target.path)),
        "rows": plain(config.target.rows),
        "sampler": plain(engine.sampling),
        "dtype": config.runtime.dtype.name,
        "kernels": kernel_label(config.runtime),
        "code": source_hash("decoding", "models", "native"),
    }
    return TargetTokens(shared(config), made_by)
