"""Good little models beside broken ones, lists, runs and stores: what a user may point a key at."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
import torch
from fake_models import N_CODES, WORDS, tone, write_fake_models
from safetensors.torch import load_file, save_file
from valle_folders import write_valle

ROW = {"id": "a", "text": "one two", "prompt_audio": "prompt0.wav", "prompt_text": "two"}
RECORD = {
    "id": "a",
    "speaker": "s",
    "text": "one",
    "prompt_text": "two",
    "prompt_audio": "../../prompt0.wav",
    "reference_audio": None,
    "seed": 0,
    "audio": "audio/a.wav",
    "codes": [1],
    "tokens": 2,
    "stop": "stop_id",
    "audio_seconds": 0.1,
    "lm_seconds": 0.1,
}

# What is made of each file: text as it is, a dictionary as changes to the good one (None: without).
TARGETS: dict[str, dict[str, Any]] = {
    "config_list": {"config.json": "[]"},
    "config_text": {"config.json": '"qwen2"'},
    "config_torn": {"config.json": '{"model_type": "qw'},
    "config_latin": {"config.json": b'{"a": "\xe9"}'},
    "config_empty": {"config.json": "{}"},
    "config_nan": {"config.json": {"rms_norm_eps": float("nan")}},
    "hidden_1": {"config.json": {"hidden_size": 1}},
    "hidden_0": {"config.json": {"hidden_size": 0}},
    "hidden_text": {"config.json": {"hidden_size": "32"}},
    "heads_0": {"config.json": {"num_attention_heads": 0}},
    "heads_3": {"config.json": {"num_attention_heads": 3, "head_dim": None}},
    "kv_3": {"config.json": {"num_key_value_heads": 3}},
    "layers_negative": {"config.json": {"num_hidden_layers": -1}},
    "layers_many": {"config.json": {"num_hidden_layers": 99}},
    "layers_null": {"config.json": {"num_hidden_layers": None}},
    "rope_text": {"config.json": {"rope_parameters": "fast"}},
    "rope_odd": {"config.json": {"rope_parameters": {"rope_type": "yarn"}}},
    "rope_0": {"config.json": {"rope_parameters": {"rope_type": "default", "rope_theta": 0}}},
    "vocab_small": {"config.json": {"vocab_size": 5}},
    "vocab_large": {"config.json": {"vocab_size": 9999}},
    "speech_list": {"speech.json": "[]"},
    "speech_torn": {"speech.json": '{"n_codes": 4'},
    "speech_empty": {"speech.json": "{}"},
    "speech_text_number": {"speech.json": {"n_codes": "40"}},
    "speech_codes_0": {"speech.json": {"n_codes": 0}},
    "speech_no_stop": {"speech.json": {"stop_ids": []}},
    "speech_stop_far": {"speech.json": {"stop_ids": [999]}},
    "speech_words_number": {"speech.json": {"words": 5}},
    "speech_words_numbers": {"speech.json": {"words": [1, 2]}},
    "speech_sampling_list": {"speech.json": {"sampling": [1]}},
    "speech_sampling_text": {"speech.json": {"sampling": {"temperature": "hot"}}},
    "speech_sampling_nan": {"speech.json": {"sampling": {"temperature": float("nan")}}},
    "speech_sampling_empty": {"speech.json": {"sampling": {}}},
    "speech_rate_0": {"speech.json": {"token_rate": 0}},
    "speech_format": {"speech.json": {"format_version": 9}},
    "weights_empty": {"model.safetensors": b""},
    "weights_torn": {"model.safetensors": b"\x08\0\0\0\0\0\0\0{}"},
    "weights_text": {"model.safetensors": "these are no weights"},
    "weights_gone": {"model.safetensors": None},
}
# What is left of two matrices of the good target: so many rows, or none.
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
CUT = {
    "no_embedding": {EMBEDDING: 0},
    "no_head": {HEAD: 0},
    "short_embedding": {EMBEDDING: 40},
    "short_head": {HEAD: 40},
}
CODECS: dict[str, dict[str, Any]] = {
    "json_list": {"codec.json": "[]"},
    "json_torn": {"codec.json": "{"},
    "json_empty": {"codec.json": "{}"},
    "json_gone": {"codec.json": None},
    "weights_gone": {"codec.safetensors": None},
    "weights_empty": {"codec.safetensors": b""},
}
LISTS: dict[str, Any] = {
    "empty": "",
    "blank": "\n\n",
    "text": "hello\n",
    "torn": json.dumps(ROW)[:20],
    "number": "5\n",
    "list": "[1, 2]\n",
    "null": "null\n",
    "object": "{}\n",
    "binary": bytes(range(256)),
    "latin": json.dumps(ROW, ensure_ascii=False).replace("one", "é").encode("latin-1") + b"\n",
    "no_id": {"id": None},
    "id_number": {"id": 7},
    "id_list": {"id": ["a"]},
    "id_empty": {"id": ""},
    "id_path": {"id": "../a"},
    "id_slash": {"id": "a/b"},
    "id_dot": {"id": ".a"},
    "id_nul": {"id": "a\0b"},
    "id_long": {"id": "a" * 300},
    "text_null": {"text": [None]},
    "text_number": {"text": 5},
    "text_empty": {"text": ""},
    "text_unknown": {"text": "quantum leap"},
    "prompt_number": {"prompt_audio": 5},
    "prompt_gone": {"prompt_audio": "nowhere.wav"},
    "prompt_folder": {"prompt_audio": "target"},
    "prompt_fifo": {"prompt_audio": "fifo"},
    "prompt_empty": {"prompt_audio": "empty.wav"},
    "prompt_torn": {"prompt_audio": "torn.wav"},
    "prompt_text_file": {"prompt_audio": "list.jsonl"},
    "prompt_short": {"prompt_audio": "short.wav"},
    "prompt_long": {"prompt_audio": "long.wav"},
    "prompt_text_list": {"prompt_text": ["two"]},
    "speaker_number": {"speaker": 5},
    "reference_number": {"reference_audio": 5},
    "seen_text": {"seen": "yes"},
    "twice": "".join(json.dumps(ROW | {"audio": "c"}) + "\n" for _ in "ab"),
    "disks": "".join(
        json.dumps(ROW | {"id": key, "audio": "c"}) + "\n" for key in ("\u00e9", "e\u0301")
    ),
    "no_audio": {"prompt_audio": None},
}


def write_world(root: Path) -> Path:
    """All of it below `root`; nothing here is changed by a command that refuses its input."""
    write_fake_models(root)
    write_valle(root / "valle", n_codes=N_CODES, quantizers=2)
    rng = np.random.default_rng(1)
    (root / "empty.wav").write_bytes(b"")
    (root / "torn.wav").write_bytes(b"RIFF\xff\xff\0\0WAVEfmt ")
    sounds = {"nothing": np.zeros(0), "short": np.zeros(300), "silent": np.zeros(16_000)}
    sounds |= {"click": np.sin(np.arange(300)), "nan": np.full(16_000, np.nan)}
    for name, wave in sounds.items():
        soundfile.write(root / f"{name}.wav", wave, 16_000, subtype="FLOAT")
    soundfile.write(root / "long.wav", np.tile(tone(rng, seconds=1), 600), 16_000)
    os.mkfifo(root / "fifo")
    for name, changes in TARGETS.items():
        _changed(root / "target", root / "targets" / name, changes)
    for name, changes in CODECS.items():
        _changed(root / "codec", root / "codecs" / name, changes)
    for name, rows in CUT.items():
        _cut_weights(root / "target", root / "targets" / name, rows)
    _nan_weights(root / "target", root / "targets" / "weights_nan")
    for name, content in LISTS.items():
        _write_list(root, name, content)
    os.mkfifo(root / "lists.fifo")
    _write_stores(root / "stores")
    return root


def _changed(good: Path, place: Path, changes: dict[str, Any]) -> None:
    """A copy of a folder with some files changed."""
    shutil.copytree(good, place)
    for name, content in changes.items():
        path = place / name
        if content is None:
            path.unlink()
        elif isinstance(content, dict):
            path.write_text(json.dumps(json.loads(path.read_text()) | content))
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _cut_weights(good: Path, place: Path, rows: dict[str, int]) -> None:
    shutil.copytree(good, place)
    state = load_file(place / "model.safetensors")
    cut = {name: state.pop(name)[:left].clone() for name, left in rows.items()}
    state |= {name: matrix for name, matrix in cut.items() if len(matrix)}
    save_file(state, place / "model.safetensors", metadata={"format": "pt"})


def _nan_weights(good: Path, place: Path) -> None:
    shutil.copytree(good, place)
    tensors = load_file(place / "model.safetensors")
    tensors["model.layers.0.mlp.up_proj.weight"][0, 0] = float("nan")
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})


def _write_list(root: Path, name: str, content: Any) -> None:
    """A list beside the good one: text, bytes, or changes to a good row (None: without the key)."""
    if isinstance(content, dict):
        row = {key: value for key, value in (ROW | content).items() if value is not None}
        content = json.dumps({k: None if v == [None] else v for k, v in row.items()}) + "\n"
    data = content if isinstance(content, bytes) else content.encode()
    (root / f"bad_{name}.jsonl").write_bytes(data)


def _write_stores(root: Path) -> None:
    """Stores of training codes: a good one, and what can be wrong with one."""
    good = {
        "id": "t0",
        "speaker": "s0",
        "split": "train",
        "text": " ".join(WORDS[:2]),
        "codes": [1, 2, 3, 4, 5, 6],
        "speech_start": 1,
        "word_ends": [3, 6],
    }
    rows = {
        "good": good,
        "unknown_word": good | {"text": "quantum leap"},
        "far_code": good | {"codes": [1, 2, 3, 4, 5, 999]},
        "negative_code": good | {"codes": [1, 2, 3, 4, 5, -1]},
        "no_codes": {k: v for k, v in good.items() if k != "codes"},
        "text_codes": good | {"codes": "abc"},
        "empty_codes": good | {"codes": []},
    }
    for name, row in rows.items():
        folder = root / name
        folder.mkdir(parents=True)
        for split in ("train", "dev"):
            table = pa.Table.from_pylist(
                [row | {"split": split, "id": f"{split}{i}"} for i in (0, 1)]
            )
            pq.write_table(table, folder / f"{split}-0000.parquet")
    (root / "none").mkdir()
    (root / "torn").mkdir()
    for split in ("train", "dev"):
        (root / "torn" / f"{split}-0000.parquet").write_bytes(b"PAR1")
    torch.save({"a": torch.zeros(2)}, root / "tensors.pt")
