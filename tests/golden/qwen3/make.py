"""Make these golden files with transformers: `python make.py [FOLDER]`, this folder by default."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

FORCED, GREEDY, PROMPT = 24, 32, 7
NEAR = 0.02  # a greedy step whose two best logits are nearer than this would be no test
OLD_KEYS = {  # of a file that transformers 4 wrote, as published Qwen3 checkpoints have them
    "bos_token_id": 0,
    "eos_token_id": 2,
    "max_window_layers": 3,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "use_cache": True,
    "use_sliding_window": False,
}
STYLES: dict[str, tuple[dict[str, Any], torch.dtype, str]] = {  # settings, format, largest shard
    "tied_sharded_bf16": (
        {
            "vocab_size": 157,
            "hidden_size": 32,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
            "max_position_embeddings": 4096,
        },
        torch.bfloat16,
        "40KB",
    ),
    "untied_biased": (
        {
            "vocab_size": 101,
            "hidden_size": 24,
            "intermediate_size": 40,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 32,
            "attention_bias": True,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
            "max_position_embeddings": 4096,
        },
        torch.float32,
        "5GB",
    ),
}


def saved(folder: Path, style: str, seed: int) -> None:
    """Save a model with random weights, norms and biases too."""
    settings, dtype, shard = STYLES[style]
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(Qwen3Config(**settings), dtype=torch.float32)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn(parameter.shape), alpha=0.3)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    if style == "tied_sharded_bf16":
        path = folder / "config.json"
        config = json.loads(path.read_text())
        del config["rope_parameters"], config["layer_types"]
        path.write_text(json.dumps(config | OLD_KEYS, indent=2, sort_keys=True) + "\n")


@torch.inference_mode()
def expected(folder: Path) -> dict[str, np.ndarray] | None:
    """Return forced logits and a greedy continuation in float32; None for near ties."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(model.config.vocab_size, (1, PROMPT + FORCED), generator=generator)
    said = model.generate(
        ids[:, :PROMPT], attention_mask=torch.ones(1, PROMPT, dtype=torch.int64), do_sample=False,
        max_new_tokens=GREEDY, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    best = model(said).logits[0, PROMPT - 1 : -1].topk(2).values
    if float((best[:, 0] - best[:, 1]).min()) < NEAR or len(set(said[0, PROMPT:].tolist())) < 8:
        return None
    return {
        "ids": ids[0].numpy(),
        "logits": model(ids).logits[0].numpy(),
        "prompt": np.array(PROMPT),
        "greedy": said[0].numpy(),
    }


def main() -> None:
    """Try seeds in turn until no greedy step is a near tie."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    arrays: dict[str, np.ndarray] = {}
    for style in STYLES:
        for seed in range(100):
            saved(root / style, style, seed)
            found = expected(root / style)
            if found is not None:
                arrays |= {f"{style}/{name}": value for name, value in found.items()}
                break
    np.savez_compressed(root / "expected.npz", **arrays)


if __name__ == "__main__":
    main()
