"""Small random CSM checkpoints, saved by transformers beside the golden one's tokenizer."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import CsmConfig, CsmForConditionalGeneration, MimiConfig

GOLDEN = Path(__file__).parent / "golden" / "csm"
TOKENS = {"audio_token_id": 302, "audio_eos_token_id": 303, "pad_token_id": None}
ROPE = {"rope_type": "default", "rope_theta": 10_000.0}


def codec(codebooks: int, codes: int) -> MimiConfig:
    return MimiConfig(
        hidden_size=8,
        num_filters=2,
        codebook_size=1 << (codes.bit_length() - 1),  # a power of 2
        codebook_dim=4,
        num_quantizers=codebooks,
        vector_quantization_hidden_dimension=4,
        upsample_groups=8,
        num_hidden_layers=1,
        intermediate_size=8,
        num_attention_heads=1,
        num_key_value_heads=1,
        sliding_window=8,
    )


def talker(
    codebooks: int, codes: int, *, seed: int = 1, scale: float = 0.25, **config: object
) -> CsmForConditionalGeneration:
    """A backbone of 24 and a depth decoder of 16 dimensions, matrices of this scale."""
    own = dict(config)
    depth = {
        "num_codebooks": codebooks,
        "backbone_hidden_size": 24,
        "vocab_size": codes,
        "hidden_size": 16,
        "intermediate_size": 20,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": codebooks + 1,
        "rope_parameters": ROPE,
        **{key: own[key] for key in ("attention_bias", "mlp_bias") if key in own},
    }
    made = CsmForConditionalGeneration(
        CsmConfig(
            num_codebooks=codebooks,
            vocab_size=codes,
            text_vocab_size=304,
            hidden_size=24,
            intermediate_size=28,
            num_hidden_layers=2,
            num_attention_heads=3,
            num_key_value_heads=1,
            max_position_embeddings=128,
            codebook_pad_token_id=codes - 1,
            codebook_eos_token_id=0,
            rope_parameters=ROPE,
            depth_decoder_config=depth,
            codec_config=codec(codebooks, codes),
            **TOKENS,  # type: ignore[arg-type]
            **own,  # type: ignore[arg-type]
        )
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if not name.startswith("codec_model."):
                spread = 0.6 if "embed" in name else scale
                noise = torch.randn(weight.shape, generator=generator)
                weight.copy_(spread * noise if weight.ndim > 1 else weight + 0.2 * noise)
    return made.eval()


def save(
    folder: Path,
    model: CsmForConditionalGeneration,
    change: Callable[[CsmForConditionalGeneration], None] = lambda _: None,
) -> Path:
    """Save a model, changed, with the golden one's tokenizer and a sampler of temperature 1."""
    with torch.no_grad():
        change(model)
    for one in (model.generation_config, model.depth_decoder.generation_config):
        one.do_sample, one.temperature, one.top_k = True, 1.0, 0
    model.generation_config.max_new_tokens = 6
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(GOLDEN / "model" / name, folder / name)
    return folder
