"""Rename tensors of fairseq checkpoints (WavLM, wav2vec 2.0) to transformers' names."""

import re
from collections.abc import Mapping

from torch import Tensor

WEIGHT_NORM = "encoder.pos_conv_embed.conv.parametrizations.weight.original"
RULES = (  # fairseq -> transformers, the first match counts
    (r"^mask_emb$", "masked_spec_embed"),
    (r"^layer_norm\.", "feature_projection.layer_norm."),
    (r"^post_extract_proj\.", "feature_projection.projection."),
    (r"^feature_extractor\.conv_layers\.(\d+)\.0\.", r"feature_extractor.conv_layers.\1.conv."),
    # group norm is the third module of a layer, layer norm the second inside the third
    (
        r"^feature_extractor\.conv_layers\.(\d+)\.2\.(1\.)?",
        r"feature_extractor.conv_layers.\1.layer_norm.",
    ),
    (r"^encoder\.pos_conv\.0\.weight_g$", f"{WEIGHT_NORM}0"),
    (r"^encoder\.pos_conv\.0\.weight_v$", f"{WEIGHT_NORM}1"),
    (r"^encoder\.pos_conv\.0\.", "encoder.pos_conv_embed.conv."),
    (r"\.self_attn\.grep_linear\.", ".attention.gru_rel_pos_linear."),
    (r"\.self_attn\.grep_a$", ".attention.gru_rel_pos_const"),
    (r"\.self_attn\.relative_attention_bias\.", ".attention.rel_attn_embed."),
    (r"\.self_attn\.", ".attention."),
    (r"\.self_attn_layer_norm\.", ".layer_norm."),
    (r"\.fc1\.", ".feed_forward.intermediate_dense."),
    (r"\.fc2\.", ".feed_forward.output_dense."),
)


def rename_tensors(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors below `prefix` by the names of WavLMModel and Wav2Vec2Model."""
    below = (name for name in state if name.startswith(prefix))
    return {_rename(name.removeprefix(prefix)): state[name] for name in below}


def _rename(name: str) -> str:
    for pattern, replacement in RULES:
        new, count = re.subn(pattern, replacement, name, count=1)
        if count:
            return new
    return name
