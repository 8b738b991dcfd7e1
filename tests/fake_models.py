"""A random little speech stack on disk: the shapes and files of the real one, nothing learned."""

import json
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import soundfile
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from speculative_tts.codecs import world
from speculative_tts.codecs.tiny import TOKEN_FEATURES, TinyCodec
from speculative_tts.decoding.engine import Engine
from speculative_tts.schema.decode import System

N_CODES = 40
WORDS = ["alpha", "bravo", "charlie", "one", "two"]
SAMPLING = {
    "temperature": 0.8,
    "top_k": 25,
    "top_p": 0.9,
    "min_tokens_per_word": 4,
    "max_tokens_per_word": 8,
}


@dataclass(frozen=True)
class FakeModels:
    """Where the files are, and the overrides that make a command use them."""

    root: Path

    @property
    def overrides(self) -> list[str]:
        keys = {"target": "target", "draft": "draft", "codec": "codec", "data": "list.jsonl"}
        return [f"{key}.path={self.root / name}" for key, name in keys.items()]


def write_fake_models(root: Path, utterances: int = 6) -> FakeModels:
    """Write target (3 layers), draft (its first), codec, prompts and list below `root`.

    All are alike, so a process makes them once and copies them; what torch draws next is alike too.
    """
    first, state = _written(utterances)
    shutil.copytree(first.name, root, copy_function=shutil.copy, dirs_exist_ok=True)
    torch.set_rng_state(state)
    return FakeModels(root)


@cache
def _written(utterances: int) -> tuple[TemporaryDirectory[str], torch.Tensor]:
    """Return a folder of models, and the state of torch's generator after they were made."""
    folder = TemporaryDirectory()
    root = Path(folder.name)
    torch.manual_seed(0)
    target = write_checkpoint(root / "target", layers=3)
    write_checkpoint(root / "draft", layers=1, source=target)
    rng = np.random.default_rng(0)
    write_codec(root / "codec", rng)
    for index in range(2):
        soundfile.write(root / f"prompt{index}.wav", tone(rng, seconds=0.8), world.SAMPLE_RATE)
    rows = [
        {
            "id": f"u{index}",
            "speaker": f"s{index % 2}",
            "text": " ".join(WORDS[: 2 + index % 3]),
            "prompt_audio": f"prompt{index % 2}.wav",
            "prompt_text": "two",
            "reference_audio": f"prompt{(index + 1) % 2}.wav",
        }
        for index in range(utterances)
    ]
    (root / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder, torch.get_rng_state()


def write_checkpoint(
    folder: Path, *, layers: int, source: torch.nn.Module | None = None, n_codes: int = N_CODES
) -> torch.nn.Module:
    """A checkpoint in the merged layout; weights of `source` where the names agree."""
    config = Qwen2Config(
        vocab_size=n_codes + 1 + len(WORDS) + 2,
        hidden_size=32,
        intermediate_size=48,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=layers,
        max_position_embeddings=512,
    )
    model = Qwen2ForCausalLM(config)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn(parameter.shape), alpha=0.1)
    if source is not None:
        model.load_state_dict({k: source.state_dict()[k] for k in model.state_dict()})
    model.save_pretrained(folder)
    layout = {
        "n_codes": n_codes,
        "stop_ids": [n_codes],
        "speech_vocab_size": n_codes + 1,
        "text_offset": n_codes + 1,
        "words": WORDS,
        "sos_id": config.vocab_size - 2,
        "task_id": config.vocab_size - 1,
        "token_rate": 25,
        "sample_rate": world.SAMPLE_RATE,
        "sampling": SAMPLING,
    }
    (folder / "speech.json").write_text(json.dumps(layout))
    return model


def write_codec(folder: Path, rng: np.random.Generator, n_codes: int = N_CODES) -> None:
    """A codec whose codebook is frames of a hummed tone."""
    frames = world.frame_features(world.analyse(tone(rng, seconds=n_codes * 0.05)))
    vectors = frames[: len(frames) // 4 * 4].reshape(-1, TOKEN_FEATURES)
    codebook = vectors[rng.integers(0, len(vectors), n_codes)].astype(np.float32)
    TinyCodec(codebook, np.ones(world.N_FEATURES, np.float32)).save(folder)


def tone(rng: np.random.Generator, *, seconds: float) -> np.ndarray:
    """A buzz of 120 Hz with a little noise: voiced for WORLD."""
    time = np.arange(int(seconds * world.SAMPLE_RATE)) / world.SAMPLE_RATE
    buzz = sum(np.sin(2 * np.pi * 120 * k * time) / k for k in range(1, 20))
    return (0.1 * buzz + 0.001 * rng.standard_normal(len(time))).astype(np.float32)


def watch_systems(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Initials of the systems that engines decode with from now on, one a batch."""
    order: list[str] = []
    plain = Engine.decode

    def noted(self: Engine, system: System, *rest: object) -> object:
        order.append(system.name[0])
        return plain(self, system, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "decode", noted)
    return order
