"""Read the checkpoint that a draft inherits from, and write the draft with its provenance.

A folder holds config.json, model.safetensors (or shards with an index), and small companions:
speech.json, tokenizer files. A draft's `inheritance.json` names the target by the SHA-256 of its
weights, the copied layers and the trained tensors. A CosyVoice folder is read as a merged
vocabulary whose head has speech rows only, and a draft of it is written in the same layout.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from speculative_tts.assets import require
from speculative_tts.files import copy_atomic, files_hash
from speculative_tts.models.decoder.loading import read_config, read_state, stored_apart
from speculative_tts.models.families import cosyvoice
from speculative_tts.models.families.cosyvoice_export import write_checkpoint
from speculative_tts.models.speech_lm import Layout, by_depth
from speculative_tts.state_dicts import write_tensors
from speculative_tts.training.inherit import HEAD, is_tied
from speculative_tts.typed import write_json

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INHERITANCE = "inheritance.json"
_COMPANIONS = (
    "speech.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template*",
    "generation_config.json",
)


def read_checkpoint(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return config.json and all tensors of a checkpoint; raise ValueError when one is broken.

    A head that only repeats tied embeddings is left out.
    """
    if cosyvoice.found(require(folder)):
        checkpoint = cosyvoice.read_checkpoint(folder)
        return checkpoint.config, checkpoint.state
    if not (folder / CONFIG).is_file():
        raise ValueError(f"no {CONFIG} in {folder}; give a folder with {CONFIG} and {WEIGHTS}")
    return _untied_if_stored(folder, read_config(folder), read_state(folder))


def refuse_talker(layout: Layout, target: Path) -> None:
    """Raise ValueError for a target whose codes come from two decoders."""
    if by_depth(layout):
        raise ValueError(
            f"{target} says the codes of a frame by a depth decoder, for which "
            "sst-train-heads kind=codebooks alone trains a drafter; give that, or another target"
        )


def _untied_if_stored(
    folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Resolve a checkpoint that ties embedding and head but stores both (LLaSA-3B)."""
    if not is_tied(config):
        return config, tensors
    if stored_apart(tensors, folder):
        return config | {"tie_word_embeddings": False}, tensors
    return config, {name: tensor for name, tensor in tensors.items() if name != HEAD}


def source_hash(folder: Path) -> str:
    """Return the SHA-256 over the weight files of a checkpoint, in name order."""
    return files_hash(sorted({*folder.glob("model*.safetensors"), *folder.glob("llm.*")}))


def build_model(
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> PreTrainedModel:
    """Build the transformers model of config and state dict; its parameters copy the tensors.

    Weights are never initialised, and each goes straight to its device (None: the CPU).
    Raise ValueError when config and tensors do not fit.
    """
    settings = {key: value for key, value in config.items() if key not in ("torch_dtype", "dtype")}
    head = tensors.get(HEAD)
    with init_empty_weights():  # buffers are still created: no checkpoint stores them
        model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            AutoConfig.for_model(**settings), dtype=dtype
        )
        assert isinstance(model, PreTrainedModel)
        if head is not None and (len(head) != config["vocab_size"] or "lm_head.bias" in tensors):
            own = nn.Linear(head.shape[1], len(head), bias="lm_head.bias" in tensors, dtype=dtype)
            model.set_output_embeddings(own)  # type: ignore[no-untyped-call]
    own_tensors = {
        name: tensor.to(device or "cpu", dtype, copy=True) for name, tensor in tensors.items()
    }
    try:
        missing, unexpected = model.load_state_dict(own_tensors, strict=False, assign=True)
    except RuntimeError as error:
        raise ValueError(
            f"config.json and weights do not fit: {str(error).splitlines()[-1].strip()}"
        ) from error
    absent = [name for name in missing if not (name == HEAD and model.config.tie_word_embeddings)]
    if absent or unexpected:
        raise ValueError(f"config.json and weights do not fit: tensor {[*absent, *unexpected][0]}")
    model.tie_weights()
    placed: PreTrainedModel = model.to(device or "cpu")  # type: ignore[arg-type]
    return placed


@dataclass(frozen=True)
class TargetCheckpoint:
    """A target that a draft is made from: configuration, tensors and the weights' SHA-256."""

    folder: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    digest: str

    @classmethod
    def read(cls, folder: Path) -> "TargetCheckpoint":
        """Read a checkpoint folder; raise ValueError when something is missing or broken."""
        config, tensors = read_checkpoint(folder)
        return cls(folder, config, tensors, source_hash(folder))

    def model(self, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
        """Build the frozen target."""
        model = build_model(self.config, self.tensors, dtype, device)
        model.requires_grad_(False).train(mode=False)
        return model


def write_draft(
    folder: Path,
    source: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    inheritance: Mapping[str, Any],
) -> None:
    """Write the draft as an ordinary checkpoint: each file whole or absent, config.json last."""
    if cosyvoice.found(source):
        write_json(folder / INHERITANCE, dict(inheritance))
        write_checkpoint(folder, source, tensors, list(inheritance["layers"]))
        return
    copy_companions(source, folder)
    stored = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_tensors(folder / WEIGHTS, stored)
    write_json(folder / INHERITANCE, dict(inheritance))
    write_json(folder / CONFIG, dict(config))


def copy_companions(source: Path, folder: Path) -> None:
    """Copy tokenizer, template and the other small files beside the weights."""
    for pattern in _COMPANIONS:
        for file in sorted(source.glob(pattern)):
            copy_atomic(file, folder / file.name)
