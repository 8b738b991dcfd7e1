"""Each loader refuses, by name, what it would leave out or misread: all that it reads is tried.

The folder of each is whole first; then one of its tensors becomes integers without their scales,
or one that nobody reads stands among them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from cosyvoice_folders import write_merged, write_official
from fake_models import write_checkpoint, write_codec
from safetensors.torch import load_file, save_file
from valle_golden import small_valle

from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.models.families import cosyvoice
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.families.valle.checkpoint import load_valle, save_valle
from speculative_tts.models.heads import HeadTensors, read_heads, save_heads
from speculative_tts.models.recurrent import BlockTensors, LayerTensors, read_layer, save_layer

OPTIONS: dict[str, Any] = {"dtype": torch.float32, "device": torch.device("cpu")}


class Stored(NamedTuple):
    """A file of weights, one of its tensors, and what reads it."""

    file: Path
    tensor: str
    load: Callable[[], object]


def official(root: Path) -> Stored:
    write_official(root / "official", 40)
    load = lambda: cosyvoice.load(root / "official", **OPTIONS)  # noqa: E731
    return Stored(root / "official/llm.pt", "llm_decoder.weight", load)


def merged(root: Path) -> Stored:
    write_official(root / "official", 40)
    write_merged(root / "merged", root / "official")
    load = lambda: cosyvoice.load(root / "merged", **OPTIONS)  # noqa: E731
    return Stored(root / "merged/model.safetensors", "model.norm.weight", load)


def tiny(root: Path) -> Stored:
    write_checkpoint(root, layers=1)
    load = lambda: MergedVocabLM.load(root, **OPTIONS)  # noqa: E731
    return Stored(root / "model.safetensors", "model.embed_tokens.weight", load)


def valle(root: Path) -> Stored:
    save_valle(small_valle(), root)
    return Stored(root / "model.safetensors", "ar_predict_layer.weight", lambda: load_valle(root))


def official_valle(root: Path) -> Stored:
    torch.save(small_valle().state(), root / "valle.pt")
    load = lambda: load_valle(root / "valle.pt", heads=2)  # noqa: E731
    return Stored(root / "valle.pt", "ar_predict_layer.weight", load)


def target(root: Path) -> Path:
    (root / "target").mkdir()
    (root / "target/model.safetensors").write_bytes(b"weights")
    return root / "target"


def heads(root: Path) -> Stored:
    save_heads(root / "heads", HeadTensors(torch.randn(2, 5, 4)), target=target(root))
    return Stored(
        root / "heads/heads.safetensors", "heads.weight", lambda: read_heads(root / "heads")
    )


def recurrent(root: Path) -> Stored:
    block = BlockTensors(torch.ones(6, 8), torch.ones(6), torch.ones(4, 6), torch.ones(4))
    save_layer(root / "layer", LayerTensors((block,)), target=target(root))
    file = root / "layer/recurrent.safetensors"
    bias = next(name for name in load_file(file) if name.endswith("bias"))
    return Stored(file, bias, lambda: read_layer(root / "layer"))


def codec(root: Path) -> Stored:
    write_codec(root, np.random.default_rng(0))
    return Stored(root / "codec.safetensors", "codebook", lambda: TinyCodec.load(root))


WRITERS = [official, merged, tiny, valle, official_valle, heads, recurrent, codec]


def change(stored: Stored, **tensors: torch.Tensor) -> None:
    pickled = stored.file.suffix == ".pt"
    state = torch.load(stored.file) if pickled else load_file(stored.file)
    state |= tensors
    if pickled:
        torch.save(state, stored.file)
    else:
        save_file(state, stored.file)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("write", WRITERS)
def test_8_bits_without_scales_are_refused_by_name(
    tmp_path: Path, write: Callable[[Path], Stored], dtype: torch.dtype
) -> None:
    """`load_state_dict`, `astype` and `.to` make garbage of them in silence; numpy has no fp8."""
    stored = write(tmp_path)
    stored.load()
    whole = torch.load(stored.file) if stored.file.suffix == ".pt" else load_file(stored.file)
    change(stored, **{stored.tensor: whole[stored.tensor].to(dtype)})
    kind = {torch.int8: "int8|I8", torch.float8_e4m3fn: "float8_e4m3fn|F8_E4M3"}[dtype]
    with pytest.raises(ValueError, match=rf"{stored.tensor} (is|of) ({kind})"):
        stored.load()


@pytest.mark.parametrize("write", WRITERS)
def test_a_tensor_that_nobody_reads_is_refused_by_name(
    tmp_path: Path, write: Callable[[Path], Stored]
) -> None:
    stored = write(tmp_path)
    change(stored, **{"lora.weight": torch.ones(2, 2)})
    with pytest.raises(ValueError, match=r"lora\.weight"):
        stored.load()
