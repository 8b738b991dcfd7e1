"""Prepare the tiny corpus for the VALL-E-shaped target: a residual codec and codes in layers."""

from dataclasses import dataclass
from pathlib import Path

from speculative_tts.codecs.tiny import ResidualTinyCodec
from speculative_tts_makers.corpora.codec_training import train_residual_codec
from speculative_tts_makers.corpora.features import read_features
from speculative_tts_makers.corpora.postnet import with_postnet
from speculative_tts_makers.corpora.take_codes import RESIDUAL_SCHEMA, write_codes

CODEC = "codec_residual"
CODES = "codes_residual"


@dataclass(frozen=True)
class ResidualConfig:
    """Settings of the residual codec's training."""

    n_layers: int = 4
    n_codes: int = 1024
    codec_shards: int = 15
    iterations: int = 20
    seed: int = 1


def prepare_residual(
    shards: list[Path], config: ResidualConfig, postnet_steps: int, out: Path
) -> ResidualTinyCodec:
    """Make codec_residual/ and the training shards of codes_residual/, unless they exist."""
    codec = make_residual_codec(shards, config, postnet_steps, out / CODEC)
    write_codes(shards, codec, out / CODES, RESIDUAL_SCHEMA)
    return codec


def make_residual_codec(
    shards: list[Path], config: ResidualConfig, postnet_steps: int, folder: Path
) -> ResidualTinyCodec:
    """Train the codec on the first feature shards, unless `folder` has one."""
    if not (folder / "codec.json").exists():
        features = read_features(shards[: config.codec_shards])
        codec = train_residual_codec(
            features, config.n_layers, config.n_codes, config.iterations, config.seed
        )
        with_postnet(codec, features, postnet_steps, config.seed).save(folder)
    return ResidualTinyCodec.load(folder)
