"""Small random targets and a codes store whose next token is worth learning."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from speculative_tts.models.layout import SpeechLayout

WORDS = ("alpha", "bravo", "charlie")
LAYOUT = SpeechLayout.merged(n_codes=24, words=WORDS)
SIZES = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": LAYOUT.vocab_size,
    "max_position_embeddings": 128,
}
FAMILIES = {"qwen2": Qwen2Config, "qwen3": Qwen3Config, "llama": LlamaConfig}


def random_target(family: str, *, tied: bool) -> PreTrainedModel:
    """A four-layer model whose layers, norms and biases all differ."""
    torch.manual_seed(7)
    own = {"head_dim": 8} if family == "qwen3" else {}  # apart from hidden_size over heads
    config = FAMILIES[family](**SIZES, **own, tie_word_embeddings=tied)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.3)
    return model.eval()


def save_target(folder: Path, family: str = "qwen2", *, tied: bool = False) -> PreTrainedModel:
    model = random_target(family, tied=tied)
    model.save_pretrained(folder)
    LAYOUT.save(folder)
    return model


def save_codes(folder: Path, layers: int = 1) -> None:
    """Two speakers; every word is spoken as a run of codes of its own; further layers follow it."""
    folder.mkdir()
    rng = np.random.default_rng(3)
    for split, count in (("train", 24), ("dev", 6)):
        rows = [_row(f"{split}{i}", f"s{i % 2}", split, rng) for i in range(count)]
        for row in rows if layers > 1 else ():
            codes = np.array(row["codes"])
            row["residual_codes"] = [((codes * 5 + k) % 24).tolist() for k in range(1, layers)]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{split}-0000.parquet")


def _row(name: str, speaker: str, split: str, rng: np.random.Generator) -> dict[str, object]:
    words = [int(w) for w in rng.integers(len(WORDS), size=rng.integers(1, 4))]
    codes = [int(8 * w + c) for w in words for c in range(rng.integers(3, 6))]
    ends = np.linspace(0, len(codes), len(words) + 1).round().astype(int)[1:]
    return {
        "id": name,
        "speaker": speaker,
        "split": split,
        "text": " ".join(WORDS[w] for w in words),
        "codes": codes,
        "speech_start": 0,
        "word_ends": ends.tolist(),
        "seconds": len(codes) / 25,
    }
