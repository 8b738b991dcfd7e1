"""Make these golden files with transformers: `python make.py [FOLDER]`, this folder by default.

Prompts of soprano/ are made by the package soprano-tts 0.2.0 (with unidecode and inflect) where it
can be imported, and left as they are where not.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedTokenizerFast,
    Qwen3Config,
)

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
            "hidden_size": 20,
            "intermediate_size": 24,
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


CODES = 40  # of soprano/; the published checkpoint has 8,000
ROWS = {  # as configs/target/soprano.yaml
    "code": "[{}]", "end": "[STOP]", "user": "[STOP][TEXT]{text}", "assistant": "[START]",
    "chat": False, "date": None,
}  # fmt: skip
SAMPLER = {"temperature": 0.3, "top_k": 50, "top_p": 0.95, "repetition_penalty": 1.2}
TEXTS = (
    "Hello world, this is a first test.",
    "already in lower case, and long enough to be one sentence",
    "Dr. Smith paid $12 on 3/4/2021, at 10:30.",
)


def soprano(folder: Path) -> None:
    """Save a small model with Soprano's names of tokens, and what its steps make of texts."""
    letters = sorted(set("abcdefghijklmnopqrstuvwxyz ,.-'"))
    tokens = ["[UNK]", "[TEXT]", "[START]", *(f"[{code}]" for code in range(CODES)), "[STOP]"]
    vocabulary = {token: row for row, token in enumerate([*tokens, *letters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in tokens])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")
    wrapped.save_pretrained(folder / "model")
    settings = STYLES["tied_sharded_bf16"][0] | {
        "vocab_size": len(vocabulary), "hidden_size": 16, "intermediate_size": 24,
        "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2,
        "eos_token_id": vocabulary["[STOP]"],
    }  # fmt: skip
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(Qwen3Config(**settings), dtype=torch.float32)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn(parameter.shape), alpha=0.3)
    model.eval().save_pretrained(folder / "model")
    path, arrays = folder / "golden.json", {}
    cases = prompts() or json.loads(path.read_text())["prompts"]
    names = AutoTokenizer.from_pretrained(folder / "model")
    for number, case in enumerate(cases):
        case["name"], case["ids"] = f"text_{number}", names(case.pop("prompt"))["input_ids"]
        said = runs(model, case["ids"], vocabulary["[STOP]"], vocabulary["[0]"])
        arrays |= {f"{case['name']}/{key}": value for key, value in said.items()}
    about = {"rows": ROWS, "sampler": SAMPLER, "prompts": cases}
    path.write_text(json.dumps(about) + "\n")
    np.savez_compressed(folder / "golden.npz", **arrays)


class CodesAlone(LogitsProcessor):
    """Leave codes and the end of speech."""

    def __init__(self, first: int, end: int) -> None:
        self.rows = [*range(first, first + CODES), end]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        barred = torch.ones_like(scores, dtype=torch.bool)
        barred[:, self.rows] = False
        return scores.masked_fill(barred, -torch.inf)


@torch.inference_mode()
def runs(model: Any, prompt: list[int], end: int, first: int) -> dict[str, np.ndarray]:
    """Return what transformers' generate says: any row (`free`), and codes alone (`frames`)."""
    ids, found = torch.tensor([prompt]), {}
    common = {"attention_mask": torch.ones_like(ids), "pad_token_id": end, "eos_token_id": end}
    for name, masks in (("free", []), ("frames", [CodesAlone(first, end)])):
        given = common | {"logits_processor": LogitsProcessorList(masks)}
        greedy = model.generate(ids, **given, do_sample=False, max_new_tokens=16)
        torch.manual_seed(5)
        drawn = model.generate(
            ids, **given, **SAMPLER, do_sample=True, max_new_tokens=6,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        found |= {
            f"{name}_greedy": greedy[0].numpy(),
            f"{name}_sampled": drawn.sequences[0].numpy(),
            f"{name}_scores": torch.cat(drawn.scores).numpy(),
        }
    whole = torch.from_numpy(found["frames_greedy"])[None]
    return found | {"logits": model(whole).logits[0, len(prompt) - 1 :].numpy()}


def prompts() -> list[dict[str, Any]] | None:
    """Return the package's prompts of `TEXTS`; None without it."""
    try:
        from soprano.tts import SopranoTTS, clean_text
    except ImportError:
        return None
    return [
        {"said": text, "text": clean_text(text), "prompt": prompt}
        for text in TEXTS
        for prompt, *_ in SopranoTTS._preprocess_text(None, [text])
    ]


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
    soprano(root / "soprano")


if __name__ == "__main__":
    main()
