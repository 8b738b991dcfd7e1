"""Small CosyVoice checkpoints with random weights, as the official tools lay them out."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from decoders import layer_state
from torch import Tensor

GOLDEN = Path(__file__).parent / "golden/cosyvoice2"
BACKBONE = "CosyVoice-BlankEN"
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "vocab_size": 320}


def official_state(
    codes: int, *, version: int, layers: int = 4, seed: int = 0
) -> dict[str, Tensor]:
    """A flat state dict: embeddings and head of `codes` and what comes behind them."""
    generator = torch.Generator().manual_seed(seed)
    hidden, wide, kv = SIZES["hidden_size"], SIZES["intermediate_size"], 16

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=generator) / columns**0.5

    speech = codes + (3 if version == 2 else 200)
    words = torch.randn(SIZES["vocab_size"], hidden, generator=generator)
    state = {
        "llm.model.model.embed_tokens.weight": words,
        "llm.model.lm_head.weight": words,
        "llm.model.model.norm.weight": torch.ones(hidden),
        "speech_embedding.weight": torch.randn(speech, hidden, generator=generator),
        "llm_decoder.weight": 1.5 * matrix(speech, hidden),
    }
    if version == 2:
        state["llm_embedding.weight"] = torch.randn(2, hidden, generator=generator)
        state["llm_decoder.bias"] = 0.1 * torch.randn(speech, generator=generator)
    for layer in range(layers):
        at = f"llm.model.model.layers.{layer}."
        state |= layer_state(at, matrix, hidden, kv, wide, out=0.3)
    return state


def write_official(
    folder: Path, codes: int, *, version: int = 2, layers: int = 4
) -> dict[str, Any]:
    """An official folder; returns its state dict."""
    source = GOLDEN / "small"
    (folder / BACKBONE).mkdir(parents=True)
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copyfile(source / BACKBONE / name, folder / BACKBONE / name)
    config = json.loads((source / BACKBONE / "config.json").read_text())
    config |= SIZES | {"num_hidden_layers": layers, "max_window_layers": layers}
    (folder / BACKBONE / "config.json").write_text(json.dumps(config))
    model = "Qwen2LM" if version == 2 else "CosyVoice3LM"
    text = (source / "cosyvoice2.yaml").read_text().replace("Qwen2LM", model)
    (folder / f"cosyvoice{version}.yaml").write_text(text)
    state = official_state(codes, version=version, layers=layers)
    torch.save(state, folder / "llm.pt")
    return state


def write_merged(folder: Path, official: Path) -> None:
    """The Hugging Face folder of an official CosyVoice 2 one, by the recipe of examples/grpo."""
    from safetensors.torch import save_file
    from transformers import AutoTokenizer

    from speculative_tts.models.families.cosyvoice_text import SPECIAL_2

    state = torch.load(official / "llm.pt", weights_only=True)
    tokenizer = AutoTokenizer.from_pretrained(official / BACKBONE)
    ends = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    tokenizer.add_special_tokens(ends | {"additional_special_tokens": list(SPECIAL_2)})
    text, codes = len(tokenizer), len(state["speech_embedding.weight"]) - 3
    names = [f"<|s_{i}|>" for i in range(codes)] + ["<|eos1|>", "<|eos2|>", "<|eos3|>"]
    tokenizer.add_tokens([*names, "<|sos|>", "<|task_id|>"])
    size = -(-len(tokenizer) // 128) * 128
    hidden = state["speech_embedding.weight"].shape[1]
    table, head = torch.zeros(size, hidden), torch.zeros(size, hidden)
    bias = torch.full((size,), float("-inf"))
    table[:text] = state["llm.model.model.embed_tokens.weight"][:text]
    table[text : text + codes + 3] = state["speech_embedding.weight"]
    table[text + codes + 3 : text + codes + 5] = state["llm_embedding.weight"]
    head[text : text + codes + 3] = state["llm_decoder.weight"]
    bias[text : text + codes + 3] = state["llm_decoder.bias"]
    own = "llm.model."
    merged = {name.removeprefix(own): t for name, t in state.items() if name.startswith(own)}
    merged |= {"model.embed_tokens.weight": table, "lm_head.weight": head, "lm_head.bias": bias}
    folder.mkdir(parents=True)
    tokenizer.save_pretrained(folder)
    config = json.loads((official / BACKBONE / "config.json").read_text())
    config |= {"vocab_size": size, "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    save_file({n: t.contiguous() for n, t in merged.items()}, folder / "model.safetensors")
