"""Files of a CosyVoice folder: which version and layout it is, its tensors, its settings."""

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from speculative_tts.models.decoder.loading import RECOMPUTED, State, read_tensors
from speculative_tts.models.decoder.packed import require_plain, unpack
from speculative_tts.models.families.cosyvoice_text import SPECIAL_2, SPECIAL_3, added_tokens
from speculative_tts.state_dicts import read_state_dict
from speculative_tts.texts import read_text, some

WEIGHTS = ("llm.pt", "llm.safetensors")
YAML_NAMES = ("cosyvoice2.yaml", "cosyvoice3.yaml", "cosyvoice.yaml")
TRUNK = "llm.model.model."
NEEDED = ("speech_embedding.weight", "llm_decoder.weight", f"{TRUNK}norm.weight")
OTHERS = ("llm_embedding.weight", "llm_decoder.bias", "llm.model.lm_head.weight")
_SPEECH_ROW = re.compile(r"<\|s_(\d+)\|>")

COPY = "copy it again"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Version:
    """Constants that differ between CosyVoice 2 and 3; ids count from the first after the codes."""

    number: int
    extra: int  # speech rows after the codes, all of them stop ids
    eos: int
    fill: int
    special: tuple[str, ...]  # text tokens added to Qwen2's
    model: str  # class named in the folder's yaml


VERSION_2 = Version(2, 3, 0, 2, SPECIAL_2, "Qwen2LM")
VERSION_3 = Version(3, 200, 1, 3, SPECIAL_3, "CosyVoice3LM")


@dataclass(frozen=True)
class Settings:
    """The language model's settings in a folder's yaml."""

    sampling: dict[str, float]
    mix_ratio: tuple[int, int]
    token_rate: float
    sample_rate: int


def is_official(folder: Path) -> bool:
    """Return whether the folder has the official flat state dict."""
    return any((folder / name).is_file() for name in WEIGHTS)


def is_merged(folder: Path) -> bool:
    """Return whether it is a Hugging Face folder whose vocabulary has CosyVoice's marks."""
    if not (folder / "config.json").is_file() or (folder / "speech.json").is_file():
        return False
    return {"<|s_0|>", "<|sos|>", "<|task_id|>"} <= added_tokens(folder).keys()


def official_state(folder: Path) -> State:
    """Tensors of llm.pt (or llm.safetensors), mapped from the file where its format allows that.

    Raises ValueError when the file is broken or another model's, or holds what is not read.
    """
    path = next(folder / name for name in WEIGHTS if (folder / name).is_file())
    pickled = path.suffix == ".pt"
    stored = read_state_dict(path)[0] if pickled else unpack(read_tensors(path))
    state = {name: t for name, t in stored.items() if not name.endswith(RECOMPUTED)}
    for name in (*NEEDED, f"{TRUNK}embed_tokens.weight"):
        if name not in state:
            if within := next((n for n in state if n.endswith(f".{name}")), None):
                raise ValueError(
                    f"{path} has {within} in place of {name}, a part of a larger model; save the "
                    "state dict of its language model alone"
                )
            kind = "a CosyVoice 1 model" if "text_embedding.weight" in state else "something else"
            raise ValueError(
                f"{path} has no tensor {name}, it is {kind}; "
                "give the folder of a CosyVoice 2 or 3 model"
            )
    if unread := [n for n in state if not n.startswith(TRUNK) and n not in (*NEEDED, *OTHERS)]:
        raise ValueError(
            f"{path} holds tensors that CosyVoice 2 and 3 do not have: {some(unread)}; "
            "give the llm of a CosyVoice 2 or 3 model"
        )
    require_plain(path, state)
    _warn_of_untied_head(path, state)
    return state


def _warn_of_untied_head(path: Path, state: State) -> None:
    """The text head is tied to the embeddings and never used; a file that differs is odd."""
    head = state.get("llm.model.lm_head.weight")
    table = state["llm.model.model.embed_tokens.weight"]
    if head is not None and head.data_ptr() != table.data_ptr() and not torch.equal(head, table):
        logger.warning("%s: lm_head differs from embed_tokens; embed_tokens is used", path)


def version_of(folder: Path, state: State) -> Version:
    """CosyVoice 2 has `llm_embedding`, CosyVoice 3 has not. ValueError when files are mixed."""
    version = VERSION_2 if "llm_embedding.weight" in state else VERSION_3
    if ("llm_decoder.bias" in state) != (version is VERSION_2):
        raise ValueError(
            f"llm of {folder} mixes CosyVoice 2 and 3: llm_embedding "
            f"{'present' if version is VERSION_2 else 'absent'}, llm_decoder.bias "
            f"{'absent' if version is VERSION_2 else 'present'}; copy llm.pt again"
        )
    for name in YAML_NAMES:
        text = read_text(folder / name, COPY) if (folder / name).is_file() else ""
        other = VERSION_3 if version is VERSION_2 else VERSION_2
        if f"{other.model}\n" in text and f"{version.model}\n" not in text:
            raise ValueError(
                f"{folder} mixes versions: {name} is of CosyVoice {other.number}, the weights "
                f"are of CosyVoice {version.number}; copy one model into a folder of its own"
            )
    table, head = state["speech_embedding.weight"], state["llm_decoder.weight"]
    if len(table) != len(head) or len(table) <= version.extra:
        raise ValueError(
            f"llm of {folder} has {len(table)} speech embeddings and {len(head)} outputs, "
            f"CosyVoice {version.number} as many and more than {version.extra}; copy it again"
        )
    return version


def _plain(node: Any) -> Any:
    """Values of a YAML node, scalars as text; tags that name objects (!new:, !ref) are ignored."""
    if isinstance(node, yaml.MappingNode):
        return {_plain(key): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(value) for value in node.value]
    return node.value


def read_settings(folder: Path) -> Settings:
    """Sampler, block sizes and rates; the released models' where the folder has no yaml."""
    path = next((folder / n for n in YAML_NAMES if (folder / n).is_file()), None)
    content = {} if path is None else _read_yaml(path)
    try:
        return _settings(content)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: a setting is not of its kind ({error}); {COPY}") from error


def _settings(content: dict[str, Any]) -> Settings:
    model = content.get("llm") or {}
    sampler = model.get("sampling") or {}
    mix = model.get("mix_ratio") or [5, 15]
    return Settings(
        sampling={
            "temperature": 1.0,
            "top_k": int(sampler.get("top_k", 25)),
            "top_p": float(sampler.get("top_p", 0.8)),
            "ras_window": int(sampler.get("win_size", 10)),
            "ras_tau": float(sampler.get("tau_r", 0.1)),
            "min_tokens_per_word": 2.0,  # of text ids, as in the official `inference`
            "max_tokens_per_word": 20.0,
        },
        mix_ratio=(int(mix[0]), int(mix[1])),
        token_rate=float(content.get("token_frame_rate", 25)),
        sample_rate=int(content.get("sample_rate", 24_000)),
    )


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = _plain(yaml.compose(read_text(path, COPY), yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{path} is not YAML ({type(error).__name__}); {COPY}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} has no keys; {COPY}")
    return content


def merged_ids(folder: Path) -> tuple[Version, Tensor, int]:
    """Version, rows of a merged vocabulary in our order, and how many text ids there are.

    Ids are found by name. Raises ValueError when they are not those of a CosyVoice model.
    """
    ids = added_tokens(folder)
    codes = sorted(
        (int(m[1]), id_) for name, id_ in ids.items() if (m := _SPEECH_ROW.fullmatch(name))
    )
    numbers = [number for number, _ in codes]
    if numbers != list(range(len(numbers))) or not numbers:
        raise ValueError(f"the tokenizer in {folder} skips some of <|s_0|>, <|s_1|>, ...")
    ends = [ids[name] for name in ("<|eos1|>", "<|eos2|>", "<|eos3|>") if name in ids]
    version = VERSION_2 if ends else VERSION_3
    if ends and len(ends) != VERSION_2.extra:
        raise ValueError(f"the tokenizer in {folder} has {len(ends)} of <|eos1|> to <|eos3|>")
    speech = [id_ for _, id_ in codes] + ends
    text = codes[0][1]  # speech was added after all text
    marks = [ids["<|sos|>"], ids["<|task_id|>"]] if version is VERSION_2 else []
    return version, torch.tensor([*speech, *range(text), *marks]), text
