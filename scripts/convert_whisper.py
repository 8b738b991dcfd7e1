"""Whisper weights of CTranslate2 as a folder for transformers and a .pt file for openai-whisper.

    python scripts/convert_whisper.py WEIGHTS FOLDER    (WEIGHTS: tiny.en, base, or a folder)

Writes FOLDER/config.json, model.safetensors, tokenizer and feature extractor, and FOLDER/<size>.pt:
what judges.whisper=FOLDER and judges.openai_whisper=FOLDER read.
"""

from __future__ import annotations

import io
import json
import re
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speculative_tts.evaluation.judges.faster_whisper import read_weights
from speculative_tts.evaluation.judges.whisper import size_name

KINDS = (np.float32, np.int8, np.int16, np.int32, np.float16)
PER_HEAD = 64
Arrays = dict[str, NDArray[Any]]


def read_arrays(data: bytes) -> Arrays:
    """The variables of a CTranslate2 model.bin; aliases are the variable they stand for."""
    file = io.BytesIO(data)

    def number(kind: str) -> int:
        return int(struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0])

    def text() -> str:
        return file.read(number("H"))[:-1].decode()

    number("I"), text(), number("I")  # version, kind of model, revision
    arrays: Arrays = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        kind = KINDS[number("B")]
        arrays[name] = np.frombuffer(file.read(number("I")), kind).reshape(shape)
    for _ in range(number("I")):
        alias, meant = text(), text()
        arrays[alias] = arrays[meant]
    return arrays


def weight(arrays: Arrays, name: str) -> Tensor:
    """A matrix in float32, its 8-bit scales taken out."""
    values = arrays[f"{name}/weight"].astype(np.float32)
    scale = arrays.get(f"{name}/weight_scale")
    if scale is not None:
        values = values / scale.astype(np.float32).reshape(-1, *[1] * (values.ndim - 1))
    return torch.tensor(values)


def vector(arrays: Arrays, name: str) -> Tensor:
    """A vector or table in float32."""
    return torch.tensor(arrays[name].astype(np.float32))


def attention(arrays: Arrays, place: str, ours: str, across: str) -> dict[str, Tensor]:
    """An attention's tensors by transformers' names; `across` is empty where it is to itself."""
    width = arrays[f"{place}/layer_norm/gamma"].shape[0]
    if across:
        q, qb = weight(arrays, f"{place}/linear_0"), vector(arrays, f"{place}/linear_0/bias")
        k, v = weight(arrays, f"{place}/linear_1").split(width)
        vb = vector(arrays, f"{place}/linear_1/bias").split(width)[1]
    else:
        q, k, v = weight(arrays, f"{place}/linear_0").split(width)
        qb, _, vb = vector(arrays, f"{place}/linear_0/bias").split(width)
    out = f"{place}/linear_{2 if across else 1}"
    named = {"q_proj.weight": q, "q_proj.bias": qb, "k_proj.weight": k, "v_proj.weight": v}
    named |= {"v_proj.bias": vb, "out_proj.weight": weight(arrays, out)}
    named["out_proj.bias"] = vector(arrays, f"{out}/bias")
    return {f"{ours}.{name}": tensor for name, tensor in named.items()} | norm(
        arrays, f"{place}/layer_norm", f"{ours}_layer_norm"
    )


def norm(arrays: Arrays, place: str, ours: str) -> dict[str, Tensor]:
    """A layer norm by transformers' names."""
    pair = {"weight": "gamma", "bias": "beta"}
    return {f"{ours}.{name}": vector(arrays, f"{place}/{there}") for name, there in pair.items()}


def part(arrays: Arrays, side: str) -> dict[str, Tensor]:
    """Encoder or decoder by transformers' names."""
    state = {
        f"{side}.embed_positions.weight": vector(arrays, f"{side}/position_encodings/encodings")
    }
    state |= norm(arrays, f"{side}/layer_norm", f"{side}.layer_norm")
    for layer in range(layers_of(arrays)):
        place, ours = f"{side}/layer_{layer}", f"{side}.layers.{layer}"
        state |= attention(arrays, f"{place}/self_attention", f"{ours}.self_attn", "")
        if side == "decoder":
            state |= attention(arrays, f"{place}/attention", f"{ours}.encoder_attn", "across")
        state |= norm(arrays, f"{place}/ffn/layer_norm", f"{ours}.final_layer_norm")
        for number in (0, 1):
            there = f"{place}/ffn/linear_{number}"
            state[f"{ours}.fc{number + 1}.weight"] = weight(arrays, there)
            state[f"{ours}.fc{number + 1}.bias"] = vector(arrays, f"{there}/bias")
    return state


def layers_of(arrays: Arrays) -> int:
    """Layers of the encoder, as many as of the decoder."""
    found = (re.match(r"encoder/layer_(\d+)/", name) for name in arrays)
    return 1 + max(int(one[1]) for one in found if one)


def state_of(arrays: Arrays) -> dict[str, Tensor]:
    """All tensors by transformers' names, without the prefix `model.`."""
    state = part(arrays, "encoder") | part(arrays, "decoder")
    for number in (1, 2):
        state[f"encoder.conv{number}.weight"] = weight(arrays, f"encoder/conv{number}")
        state[f"encoder.conv{number}.bias"] = vector(arrays, f"encoder/conv{number}/bias")
    state["decoder.embed_tokens.weight"] = weight(arrays, "decoder/embeddings")
    return state


def save_transformers(files: dict[str, bytes], state: dict[str, Tensor], folder: Path) -> None:
    """Write the folder that judges.whisper reads."""
    from transformers import (
        GenerationConfig,
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
        WhisperTokenizerFast,
    )

    (folder / "tokenizer.json").write_bytes(files["tokenizer.json"])
    tokenizer = WhisperTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    of = tokenizer.convert_tokens_to_ids
    begin, end = of("<|startoftranscript|>"), of("<|endoftext|>")
    vocabulary, width = state["decoder.embed_tokens.weight"].shape
    layers = 1 + max(int(n.split(".")[2]) for n in state if n.startswith("encoder.layers."))
    heads, inner = width // PER_HEAD, state["encoder.layers.0.fc1.weight"].shape[0]
    ids = {
        "decoder_start_token_id": begin,
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": end,
    }
    model = WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=vocabulary, d_model=width, encoder_layers=layers, decoder_layers=layers,
            encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=inner,
            decoder_ffn_dim=inner, num_mel_bins=state["encoder.conv1.weight"].shape[1],
            max_source_positions=1500, max_target_positions=448, suppress_tokens=None,
            begin_suppress_tokens=None, **ids,
        )
    )  # fmt: skip
    named = {f"model.{name}": tensor for name, tensor in state.items()}
    model.load_state_dict(named | {"proj_out.weight": state["decoder.embed_tokens.weight"]})
    theirs = json.loads(files["config.json"])
    several = vocabulary >= 51_865
    languages = (
        {tokenizer.convert_ids_to_tokens(i): i for i in theirs["lang_ids"]} if several else {}
    )
    tasks = {task: of(f"<|{task}|>") for task in ("transcribe", "translate")} if several else {}
    model.generation_config = GenerationConfig(
        max_length=448, max_initial_timestamp_index=50, return_timestamps=False,
        no_timestamps_token_id=of("<|notimestamps|>"), is_multilingual=several,
        suppress_tokens=theirs["suppress_ids"], alignment_heads=theirs["alignment_heads"],
        begin_suppress_tokens=theirs["suppress_ids_begin"],
        prev_sot_token_id=of("<|startofprev|>"), **ids,
        **({"lang_to_id": languages, "task_to_id": tasks} if several else {}),
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=model.config.num_mel_bins).save_pretrained(folder)


OPENAI = (
    ("layers", "blocks"), ("fc1", "mlp.0"), ("fc2", "mlp.2"), ("final_layer_norm", "mlp_ln"),
    (".self_attn.q_proj", ".attn.query"), (".self_attn.k_proj", ".attn.key"),
    (".self_attn.v_proj", ".attn.value"), (".self_attn_layer_norm", ".attn_ln"),
    (".self_attn.out_proj", ".attn.out"), (".encoder_attn.q_proj", ".cross_attn.query"),
    (".encoder_attn.k_proj", ".cross_attn.key"), (".encoder_attn.v_proj", ".cross_attn.value"),
    (".encoder_attn_layer_norm", ".cross_attn_ln"), (".encoder_attn.out_proj", ".cross_attn.out"),
    ("decoder.layer_norm.", "decoder.ln."), ("encoder.layer_norm.", "encoder.ln_post."),
    ("embed_tokens", "token_embedding"),
    ("embed_positions.weight", "positional_embedding"),
)  # fmt: skip
"""Names of transformers and of OpenAI."""


def save_openai(state: dict[str, Tensor], folder: Path) -> Path:
    """Write the .pt file that judges.openai_whisper reads; returns its path."""
    tensors = {}
    for theirs, tensor in state.items():
        name = theirs
        for before, after in OPENAI:
            name = name.replace(before, after)
        tensors[name] = tensor.half()
    vocabulary, width = state["decoder.embed_tokens.weight"].shape
    layers = 1 + max(int(n.split(".")[2]) for n in state if n.startswith("encoder.layers."))
    mels = state["encoder.conv1.weight"].shape[1]
    sizes = {
        "ctx": (1500, 448),
        "state": (width, width),
        "head": (width // PER_HEAD,) * 2,
        "layer": (layers, layers),
    }
    dims = {"n_mels": mels, "n_vocab": vocabulary}
    dims |= {
        f"n_{side}_{k}": pair[i]
        for k, pair in sizes.items()
        for i, side in enumerate(("audio", "text"))
    }
    path = folder / f"{size_name(width, layers, vocabulary, mels)}.pt"
    torch.save({"dims": dims, "model_state_dict": tensors}, path)
    return path


def convert(weights: str, folder: Path) -> None:
    """Write both forms of the weights into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    files = read_weights(weights)
    state = state_of(read_arrays(files["model.bin"]))
    save_transformers(files, state, folder)
    save_openai(state, folder)


if __name__ == "__main__":
    convert(sys.argv[1], Path(sys.argv[2]))
