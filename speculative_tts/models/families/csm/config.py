"""Sizes of a CSM checkpoint, from its config.json as transformers writes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.loading import read_config
from speculative_tts.schema.fields import Count, Several, Whole
from speculative_tts.typed import typed

MODEL_TYPE = "csm"
FILES = f"config.json of model_type {MODEL_TYPE}, model.safetensors, tokenizer and chat template"
ROPE = {"rope_type": "default", "rope_theta": 500_000.0}  # of a config.json that says nothing
DEFAULTS: dict[str, Any] = {"model_type": "llama", "rms_norm_eps": 1e-5}
ROPE_KEYS = ("rope_parameters", "rope_theta", "rope_scaling")


@dataclass(frozen=True)
class _DepthKeys:
    """The keys of depth_decoder_config that must agree with the backbone's."""

    num_codebooks: Count = 32
    vocab_size: Count = 2051
    backbone_hidden_size: Count = 2048


@dataclass(frozen=True)
class _TalkerKeys:
    """The keys of config.json beside those of the backbone's layers."""

    depth_decoder_config: dict[str, Any]
    num_codebooks: Several = 32
    vocab_size: Count = 2051
    text_vocab_size: Count = 128_256
    codebook_eos_token_id: Whole = 0
    audio_token_id: Whole = 128_002
    audio_eos_token_id: Whole = 128_003


@dataclass(frozen=True)
class TalkerConfig:
    """Two decoders, and the ids that they read and say."""

    backbone: DecoderConfig
    depth: DecoderConfig
    codebooks: int  # codes of a frame
    size: int  # ids of a codebook, which may be more than the codec's codes
    text_rows: int
    end: int  # in every codebook of a frame but the last: the speech has ended before it
    audio: int  # token that stands for a frame of a recording
    audio_end: int  # token after a recording, which is fed as a frame of ends

    @classmethod
    def from_folder(cls, folder: Path) -> "TalkerConfig":
        """Read `folder`/config.json; ValueError for numbers that do not fit each other."""
        where, config = folder / "config.json", read_config(folder)
        stored = typed(_TalkerKeys, config, where)
        depth = typed(_DepthKeys, stored.depth_decoder_config, where)
        backbone = _decoder(config, where)
        both = {
            "num_codebooks": (depth.num_codebooks, stored.num_codebooks),
            "vocab_size": (depth.vocab_size, stored.vocab_size),
            "backbone_hidden_size": (depth.backbone_hidden_size, backbone.hidden),
        }
        for name, (one, other) in both.items():
            if one != other:
                raise ValueError(
                    f"{where}: depth_decoder_config has {name} {one}, the backbone {other}; "
                    "copy config.json again"
                )
        if stored.codebook_eos_token_id >= stored.vocab_size:
            raise ValueError(
                f"{where}: codebook_eos_token_id {stored.codebook_eos_token_id} is no code below "
                f"vocab_size {stored.vocab_size}; copy config.json again"
            )
        return cls(
            backbone,
            _decoder(stored.depth_decoder_config, where),
            stored.num_codebooks,
            stored.vocab_size,
            stored.text_vocab_size,
            stored.codebook_eos_token_id,
            stored.audio_token_id,
            stored.audio_eos_token_id,
        )

    @property
    def codes(self) -> int:
        """Return the number of codes of all codebooks."""
        return self.codebooks * self.size


def _decoder(config: Mapping[str, Any], where: Path) -> DecoderConfig:
    """Return the sizes of one of the two decoders, both of Llama's layers."""
    rope = {} if any(config.get(key) for key in ROPE_KEYS) else {"rope_parameters": ROPE}
    given = {key: value for key, value in config.items() if value is not None}
    return DecoderConfig.from_dict(DEFAULTS | given | rope | {"model_type": "llama"}, where)
