"""Write a CosyVoice checkpoint in the layout that its source has: a draft that loads like it.

The official classes load the result too: same names, the text head tied to the text embeddings.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from speculative_tts.files import copy_atomic, writing
from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.loading import EMBEDDING, HEAD, read_config
from speculative_tts.models.families.cosyvoice import BACKBONE, CosyVoiceLayout, read_layout
from speculative_tts.models.families.cosyvoice_files import (
    WEIGHTS,
    YAML_NAMES,
    is_official,
    merged_ids,
)
from speculative_tts.models.families.merged_vocab import BIAS
from speculative_tts.state_dicts import write_tensors
from speculative_tts.typed import write_json

_SMALL = (".json", ".txt", ".jinja")  # a tokenizer, a template, configurations


def write_checkpoint(
    folder: Path, source: Path, state: Mapping[str, Tensor], layers: list[int]
) -> None:
    """Write `state` (a merged state dict of some `layers` of `source`) as `source` is laid out.

    Weights come last, so that a folder that was cut off is not taken for a checkpoint.
    """
    if is_official(source):
        _write_official(folder, source, state, layers)
    else:
        _write_merged(folder, source, state, layers)


def _write_official(
    folder: Path, source: Path, state: Mapping[str, Tensor], layers: list[int]
) -> None:
    layout = read_layout(source)
    _copy(source / BACKBONE, folder / BACKBONE)
    _write_config(source / BACKBONE, folder / BACKBONE, layers)
    for name in YAML_NAMES:
        if (source / name).is_file():
            copy_atomic(source / name, folder / name)
    with writing(folder / WEIGHTS[0]) as file:
        torch.save(official_names(state, layout), file)


def official_names(state: Mapping[str, Tensor], layout: CosyVoiceLayout) -> dict[str, Tensor]:
    """A merged state dict under the official names."""
    table, speech = state[EMBEDDING], layout.speech_vocab_size
    text = len(table) - speech - (2 if layout.version == 2 else 0)
    own = {
        "llm.model." + name: tensor
        for name, tensor in state.items()
        if name.startswith("model.") and name != EMBEDDING
    }
    words = table[speech : speech + text].clone()
    own["llm.model.model.embed_tokens.weight"] = words
    own["llm.model.lm_head.weight"] = words  # tied: stored once
    own["speech_embedding.weight"] = table[:speech].clone()
    own["llm_decoder.weight"] = state[HEAD]
    if layout.version == 2:
        own["llm_decoder.bias"] = state["lm_head.bias"]
        own["llm_embedding.weight"] = table[speech + text :].clone()
    return own


def _write_merged(
    folder: Path, source: Path, state: Mapping[str, Tensor], layers: list[int]
) -> None:
    _, rows, _ = merged_ids(source)
    _copy(source, folder)
    _write_config(source, folder, layers)
    size = DecoderConfig.from_folder(source).vocab_size
    speech = rows[: len(state[HEAD])]
    own = {name: t.contiguous() for name, t in state.items() if name not in (HEAD, BIAS)}
    own[EMBEDDING] = spread(state[EMBEDDING], rows, size, 0.0)
    own[HEAD] = spread(state[HEAD], speech, size, 0.0)
    if BIAS in state:
        own[BIAS] = spread(state[BIAS], speech, size, float("-inf"))
    write_tensors(folder / "model.safetensors", own)


def spread(values: Tensor, rows: Tensor, size: int, rest: float) -> Tensor:
    """Values at their rows of a whole vocabulary, `rest` elsewhere."""
    out = values.new_full((size, *values.shape[1:]), rest)
    out[rows] = values
    return out


def _copy(source: Path, folder: Path) -> None:
    """Tokenizer and small companions."""
    for file in sorted(source.iterdir()):
        if file.is_file() and file.suffix in _SMALL:
            copy_atomic(file, folder / file.name)
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)


def _write_config(source: Path, folder: Path, layers: list[int]) -> None:
    config = read_config(source)
    config["num_hidden_layers"] = len(layers)
    if config.get("layer_types"):
        config["layer_types"] = [config["layer_types"][layer] for layer in layers]
    write_json(folder / "config.json", config)
