"""Sizes and options of a decoder-only checkpoint, from its config.json (Qwen2, Qwen3, Llama)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speculative_tts.schema.fields import Count, NonNegative, Positive
from speculative_tts.typed import read_json, typed


@dataclass(frozen=True)
class ModelType:
    """Options that a `model_type` implies, without a key of config.json.

    biased: Q, K and V always have a bias and the output never, whatever `attention_bias` says;
    head_norms: queries and keys pass an RMSNorm of their own; head_dim: where no key names it,
    None: hidden_size over heads; mlp_bias: the key of that name counts.
    """

    biased: bool = False
    head_norms: bool = False
    head_dim: int | None = None
    mlp_bias: bool = False


FAMILIES = {
    "qwen2": ModelType(biased=True),
    "qwen3": ModelType(head_norms=True, head_dim=128),
    "llama": ModelType(mlp_bias=True),
}  # by model_type

ROPE_THETA = 10_000.0  # where config.json says none
DEQUANTISED = ("compressed-tensors", "bitsandbytes", "fp8")  # quantised weights `packed` reads


@dataclass(frozen=True)
class RopeScaling:
    """Llama 3's frequency scaling (transformers' `rope_type: llama3`)."""

    factor: Positive
    low_freq_factor: Positive
    high_freq_factor: Positive
    original_max_position_embeddings: Count


@dataclass(frozen=True)
class DecoderConfig:
    """Shapes and options of one decoder; sizes in units, not bytes."""

    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    intermediate: Count
    vocab_size: Count
    norm_eps: NonNegative
    rope_theta: Positive
    max_positions: Count
    rope_scaling: RopeScaling | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_norms: bool = False
    tied: bool = False

    @classmethod
    def from_folder(cls, folder: Path) -> "DecoderConfig":
        """Read `folder`/config.json; ValueError for an architecture or option not run here."""
        path = folder / "config.json"
        config = read_json(path, "give a folder with config.json and model.safetensors")
        return cls.from_dict(config, path)

    @classmethod
    def from_dict(cls, config: Mapping[str, Any], where: object = "config.json") -> "DecoderConfig":
        """Translate a config.json of transformers 4 (`rope_theta`, `rope_scaling`) or 5.

        ValueError, which begins with `where`, for another architecture or odd numbers.
        """
        stored = typed(_Stored, config, where)
        stored.check(where)
        rope = stored.rope_parameters or stored.rope_scaling or {}
        theta = typed(_Rope, rope, where).rope_theta
        family = stored.family
        return cls(
            layers=stored.num_hidden_layers,
            hidden=stored.hidden_size,
            heads=stored.num_attention_heads,
            kv_heads=stored.kv_heads,
            head_dim=stored.width,
            intermediate=stored.intermediate_size,
            vocab_size=stored.vocab_size,
            norm_eps=stored.rms_norm_eps,
            rope_theta=stored.rope_theta or theta or ROPE_THETA,
            rope_scaling=_rope_scaling(rope, where),
            max_positions=stored.max_position_embeddings,
            qkv_bias=family.biased or stored.attention_bias,
            out_bias=stored.attention_bias and not family.biased,
            mlp_bias=stored.mlp_bias and family.mlp_bias,
            head_norms=family.head_norms,
            tied=stored.tie_word_embeddings,
        )

    @property
    def floor2(self) -> float:
        """Term that an RMSNorm adds to the sum of squares: hidden * eps."""
        return self.hidden * self.norm_eps

    @property
    def head_floor2(self) -> float:
        """Term that the RMSNorm of a query or key head adds to the sum of squares."""
        return self.head_dim * self.norm_eps

    def inverse_frequencies(self) -> list[float]:
        """Return RoPE's angular step per position of head_dim / 2 pairs, scaling applied."""
        pairs = range(0, self.head_dim, 2)
        plain = [self.rope_theta ** (-i / self.head_dim) for i in pairs]
        scaling = self.rope_scaling
        return plain if scaling is None else [_llama3(f, scaling) for f in plain]


@dataclass(frozen=True)
class _Stored:
    """The keys of config.json that count here, as transformers calls them."""

    model_type: str
    num_hidden_layers: Count
    hidden_size: Count
    num_attention_heads: Count
    intermediate_size: Count
    vocab_size: Count
    num_key_value_heads: Count | None = None
    head_dim: Count | None = None
    rms_norm_eps: NonNegative = 1e-6
    rope_theta: Positive | None = None
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    max_position_embeddings: Count = 32_768
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    use_sliding_window: bool = False
    max_window_layers: int = 28
    hidden_act: str = "silu"
    quantization_config: dict[str, Any] | None = None
    partial_rotary_factor: Positive = 1.0
    layer_types: list[str] | None = None

    @property
    def family(self) -> ModelType:
        """Options that its model_type implies, once `check` has passed."""
        return FAMILIES[self.model_type]

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def width(self) -> int:
        """Dimensions of a head."""
        own = self.head_dim or self.family.head_dim
        return own or self.hidden_size // self.num_attention_heads

    @property
    def windowed(self) -> bool:
        """True if a layer attends to a window alone; older files say from which layer on."""
        if self.layer_types is not None:
            return bool({*self.layer_types} - {"full_attention"})
        return self.use_sliding_window and self.max_window_layers < self.num_hidden_layers

    def check(self, where: object) -> None:
        """Raise ValueError for what the decoder does not run."""
        if self.model_type not in FAMILIES:
            raise ValueError(
                f"{where}: model_type {self.model_type!r} is not supported; "
                f"supported: {', '.join(FAMILIES)}"
            )
        method = (self.quantization_config or {}).get("quant_method", DEQUANTISED[0])
        if method not in DEQUANTISED:
            raise ValueError(
                f"{where}: quantization_config of quant_method {method!r} is not read, only "
                f"{', '.join(DEQUANTISED)} of 8 bits; dequantise the checkpoint (transformers: "
                "model.dequantize().save_pretrained(<folder>))"
            )
        self._check_rope(where)
        if self.windowed:
            raise ValueError(
                f"{where}: sliding windows (use_sliding_window, layer_types) are not supported; "
                "give a checkpoint whose layers are all of full_attention"
            )
        if self.hidden_act != "silu":
            raise ValueError(
                f"{where}: hidden_act {self.hidden_act!r} is not supported; supported: silu"
            )
        if self.num_attention_heads % self.kv_heads or self.width < 1 or self.width % 2:
            raise ValueError(
                f"{where}: {self.num_attention_heads} heads of {self.width} dimensions and "
                f"{self.kv_heads} of keys and values fit no decoder; save the checkpoint again"
            )

    def _check_rope(self, where: object) -> None:
        """Raise ValueError if two keys contradict on RoPE, or it turns a part of a head."""
        both = [one for one in (self.rope_parameters, self.rope_scaling) if one]
        if nested := sorted(key for one in both for key in one if isinstance(one[key], dict)):
            raise ValueError(
                f"{where}: RoPE of its own for some layers ({nested[0]}) is not supported; give "
                "another checkpoint"
            )
        ropes = [typed(_Rope, one, where) for one in both]
        thetas = {*(one.rope_theta for one in ropes), self.rope_theta} - {None}
        if (both[1:] and both[0] != both[1]) or len(thetas) > 1:
            raise ValueError(
                f"{where}: rope_parameters, rope_scaling and rope_theta say different things; "
                "keep the one that the checkpoint was trained with"
            )
        if {self.partial_rotary_factor, *(one.partial_rotary_factor for one in ropes)} != {1.0}:
            raise ValueError(
                f"{where}: a partial_rotary_factor other than 1 is not supported; give another "
                "checkpoint"
            )


@dataclass(frozen=True)
class _Rope:
    rope_theta: Positive | None = None
    partial_rotary_factor: Positive = 1.0
    rope_type: str | None = None
    type: str | None = None


def _rope_scaling(rope: dict[str, Any], where: object) -> RopeScaling | None:
    stored = typed(_Rope, rope, where)
    kind = stored.rope_type or stored.type or "default"
    if kind == "default":
        return None
    if kind != "llama3":
        raise ValueError(
            f"{where}: rope scaling {kind!r} is not supported; supported: default, llama3"
        )
    return typed(RopeScaling, rope, where)


def _llama3(frequency: float, scaling: RopeScaling) -> float:
    """Scale as Llama 3.1: long wavelengths divided by `factor`, short ones kept, a ramp between."""
    turns = scaling.original_max_position_embeddings * frequency / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    smooth = min(max((turns - scaling.low_freq_factor) / span, 0.0), 1.0)
    return frequency * (smooth + (1 - smooth) / scaling.factor)
