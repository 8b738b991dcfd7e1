"""Targets with their drafts, of every shape that is exported, here and as others load them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from cosyvoice_folders import write_merged, write_official
from transformers import AutoModelForCausalLM

from speculative_tts.assets import resolve
from speculative_tts.models.families.cosyvoice_files import is_merged, merged_ids
from speculative_tts.models.families.registry import load_speech_lm
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import SpeechLM
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.training.checkpoint import read_checkpoint, write_draft
from speculative_tts.training.inherit import inherit_config, inherit_tensors

LLASA = Path(__file__).parents[2] / "golden/llasa/model_1b_style"
SAID = "You are a helpful assistant.<|endofprompt|>"
KINDS = ("tiny", "fine", "cosyvoice2", "merged", "cosyvoice3", "llasa")


def inherited(target: Path, draft: Path) -> None:
    """A draft of the outer layers."""
    config, tensors = read_checkpoint(target)
    layers = [0, int(config["num_hidden_layers"]) - 1]
    made = (inherit_config(config, layers), inherit_tensors(config, tensors, layers))
    write_draft(draft, target, *made, {"layers": layers})
    (draft / "inheritance.json").unlink()


def pair_of(kind: str, root: Path) -> tuple[CheckpointConfig, CheckpointConfig]:
    """A target and its draft."""
    if kind in ("tiny", "fine"):
        end = "" if kind == "tiny" else "_fine"
        target, draft = (resolve(f"tiny:{name}{end}") for name in ("target", "draft"))
    else:
        target, draft = root / "source", root / "draft"
        if kind == "llasa":
            target = LLASA
        else:
            write_official(root / "source", 40, version=3 if kind == "cosyvoice3" else 2)
        if kind == "merged":
            target = root / "whole"
            write_merged(target, root / "source")
        inherited(target, draft)
    said = SAID if kind == "cosyvoice3" else None
    like = CheckpointConfig(kind, str(target), instruction=said)
    return like, replace(like, path=str(draft))


def chosen(target: CheckpointConfig) -> list[str]:
    """Settings that name a target."""
    version = ["target=cosyvoice3"] if target.instruction else []
    return [*version, f"target.path={target.path}", f"target.name={target.name}"]


def ours(checkpoint: CheckpointConfig) -> SpeechLM:
    options = {"dtype": torch.float32, "device": torch.device("cpu")}
    return load_speech_lm(checkpoint, **options, text_rows=False)  # type: ignore[arg-type]


def theirs(folder: Path) -> Any:
    remote = "auto_map" in json.loads((folder / "config.json").read_text())
    return AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=remote, dtype=torch.float32
    ).eval()


def spoken(kind: str, model: SpeechLM) -> list[int]:
    """A prompt as rows in our order."""
    if kind in ("tiny", "fine"):
        return model.prompt_ids(Prompt("alpha two"))
    return model.prompt_ids(Prompt("hello the world", voice=torch.arange(5)))


def their_rows(checkpoint: CheckpointConfig, rows: list[int]) -> list[int]:
    """The same in the order of the exported vocabulary: a merged folder keeps its own."""
    if not is_merged(Path(checkpoint.path)):
        return rows
    return [int(merged_ids(Path(checkpoint.path))[1][row]) for row in rows]
