"""What a decoder-only checkpoint is, from its Hugging Face config.json (Qwen2, Llama)."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FAMILIES = {
    "qwen2": True,
    "llama": False,
}  # model_type -> does the family bias Q, K and V by default


@dataclass(frozen=True)
class RopeScaling:
    """Llama 3's frequency scaling (transformers' `rope_type: llama3`)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int


@dataclass(frozen=True)
class DecoderConfig:
    """Shapes and options of one decoder; sizes in units, not bytes."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab_size: int
    norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None
    max_positions: int
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    tied: bool

    @classmethod
    def from_folder(cls, folder: Path) -> "DecoderConfig":
        """Read `folder`/config.json.

        Raises ValueError for another architecture or an option we do not run.
        """
        path = folder / "config.json"
        if not path.is_file():
            raise ValueError(
                f"no config.json in {folder}; give a folder with config.json and model.safetensors"
            )
        try:
            return cls.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except (json.JSONDecodeError, KeyError) as error:
            raise ValueError(
                f"{path}: not a decoder config ({error!r}); save the checkpoint again"
            ) from error

    @classmethod
    def from_dict(cls, config: dict[str, Any]) -> "DecoderConfig":
        """Translate a config.json of transformers 4 (`rope_theta`, `rope_scaling`) or 5."""
        family = config.get("model_type")
        if family not in FAMILIES:
            raise ValueError(
                f"model_type {family!r} is not supported; supported: {', '.join(FAMILIES)}"
            )
        if config.get("use_sliding_window"):
            raise ValueError(
                "use_sliding_window=true is not supported; set it to false in config.json"
            )
        if config.get("hidden_act", "silu") != "silu":
            raise ValueError(
                f"hidden_act {config['hidden_act']!r} is not supported; supported: silu"
            )
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        heads = config["num_attention_heads"]
        bias = bool(config.get("attention_bias", False))
        return cls(
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or config["hidden_size"] // heads,
            intermediate=config["intermediate_size"],
            vocab_size=config["vocab_size"],
            norm_eps=config.get("rms_norm_eps", 1e-6),
            rope_theta=config.get("rope_theta") or rope.get("rope_theta", 10_000.0),
            rope_scaling=_rope_scaling(rope),
            max_positions=config.get("max_position_embeddings", 32_768),
            qkv_bias=FAMILIES[family] or bias,
            out_bias=bias and not FAMILIES[family],
            mlp_bias=bool(config.get("mlp_bias", False)),
            tied=bool(config.get("tie_word_embeddings", False)),
        )

    def inverse_frequencies(self) -> list[float]:
        """RoPE's angular step per position for each of head_dim / 2 pairs, scaling applied."""
        pairs = range(0, self.head_dim, 2)
        plain = [self.rope_theta ** (-i / self.head_dim) for i in pairs]
        scaling = self.rope_scaling
        return plain if scaling is None else [_llama3(f, scaling) for f in plain]


def _rope_scaling(rope: dict[str, Any]) -> RopeScaling | None:
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None
    if kind != "llama3":
        raise ValueError(f"rope scaling {kind!r} is not supported; supported: default, llama3")
    return RopeScaling(
        factor=rope["factor"],
        low_freq_factor=rope["low_freq_factor"],
        high_freq_factor=rope["high_freq_factor"],
        original_max_position=rope["original_max_position_embeddings"],
    )


def _llama3(frequency: float, scaling: RopeScaling) -> float:
    """Llama 3.1's rule: long wavelengths divided by `factor`, short ones kept, a ramp between."""
    turns = scaling.original_max_position * frequency / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    smooth = min(max((turns - scaling.low_freq_factor) / span, 0.0), 1.0)
    return frequency * (smooth + (1 - smooth) / scaling.factor)
