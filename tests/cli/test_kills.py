"""SIGKILL while scoring or training, then the same again: as if nothing had happened."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from fake_models import N_CODES, tone, write_codec

from speculative_tts.commands.eval import main as evaluate
from speculative_tts.schema.common import Device
from speculative_tts.training.devices import accelerator_for
from speculative_tts_makers.training.recordings import BatchConfig, Stage
from speculative_tts_makers.training.target import ModelConfig, TargetRecipe, train_target

pytestmark = [pytest.mark.slow, pytest.mark.whole]
ROOT = Path(__file__).parents[2]
EVALUATE = "import sys; from speculative_tts.commands.eval import main; sys.exit(main())"
TRAIN = "import sys; from cli.test_kills import train; train(sys.argv[1], sys.argv[2])"
UTTERANCES, STEPS = 16, 60
WORDS = ("alpha", "bravo", "charlie")


def killed(script: str, arguments: list[str], ready: Callable[[], bool]) -> None:
    """Run a script and SIGKILL it once `ready`."""
    command = [sys.executable, "-c", script, *arguments]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)
    while process.poll() is None and not ready():
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def test_scoring_with_workers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(UTTERANCES):
        soundfile.write(tmp_path / f"u{number}.wav", tone(rng, seconds=0.6), 16_000)
        rows.append({"id": f"u{number}", "text": "alpha two", "audio": f"u{number}.wav"})
    path = tmp_path / "list.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = [f"list={path}", "metrics=[wer]", "workers=2", "draws=50"]
    whole, cut = tmp_path / "whole" / "scores", tmp_path / "cut" / "scores"
    assert evaluate([*common, f"out={whole}", f"cache={tmp_path / 'other'}"]) == 0

    def kept() -> bytes:
        return b"".join(file.read_bytes() for file in cut.glob(".scores/pocketsphinx*.jsonl"))

    killed(EVALUATE, [*common, f"out={cut}"], lambda: kept().count(b"\n") >= 3)
    assert 3 <= kept().count(b"\n") <= UTTERANCES  # the first line is the judge
    assert not (cut / "scores.jsonl").exists()
    there = b"".join(kept().splitlines(keepends=True)[:3])
    assert evaluate([*common, f"out={cut}"]) == 0
    assert kept().startswith(there)
    assert kept().count(b"\n") == UTTERANCES + 1
    assert (cut / "scores.jsonl").read_bytes() == (whole / "scores.jsonl").read_bytes()
    summaries = [json.loads((out / "summary.json").read_text()) for out in (cut, whole)]
    assert all(summary.pop("argv") for summary in summaries)  # they name their folder
    assert summaries[0] == summaries[1]


def test_training_of_a_target(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(str(corpus), str(whole))
    killed(TRAIN, [str(corpus), str(cut)], lambda: any(cut.glob("training/state-*.pt")))
    assert not (cut / "target").exists()
    train(str(corpus), str(cut))
    logs = [(out / "training" / "metrics.jsonl").read_text() for out in (cut, whole)]
    assert logs[0] == logs[1]
    for name in ("config.json", "model.safetensors", "speech.json"):
        assert (cut / "target" / name).read_bytes() == (whole / "target" / name).read_bytes()


def train(corpus: str, out: str) -> None:
    """The command's recipe at a size of seconds."""
    recipe = TargetRecipe(
        model=ModelConfig(hidden_size=16, intermediate_size=24, heads=2, kv_heads=1),
        layers=2,
        batch=BatchConfig(tokens=120, stages=(Stage(1 << 30, 2),)),
        steps=STEPS,
        save_every=5,
        log_every=1,
        threads=1,
        prepared=corpus,
        out=out,
    )
    train_target(recipe, accelerator_for(Device.cpu))


def write_corpus(root: Path) -> Path:
    """What sst-prepare leaves: codec, codes, and a dev list of one row."""
    rng = np.random.default_rng(0)
    for folder in ("codec", "codes", "dev"):
        (root / folder).mkdir(parents=True)
    write_codec(root / "codec", rng)
    rows = [
        {
            "text": f"{one} {other}",
            "speaker": "s",
            "codes": rng.integers(0, N_CODES, 12).tolist(),
            "speech_start": 0,
            "word_ends": [6, 12],
        }
        for one in WORDS
        for other in WORDS
    ]
    pq.write_table(pa.Table.from_pylist(rows), root / "codes" / "train-0000.parquet")
    for name in ("prompt", "reference"):
        soundfile.write(root / "dev" / f"{name}.wav", tone(rng, seconds=0.4), 16_000)
    row = {"id": "d0", "speaker": "s", "seen": True, "text": "alpha", "prompt_text": "bravo"}
    row |= {"prompt_audio": "prompt.wav", "reference_audio": "reference.wav"}
    (root / "dev" / "list.jsonl").write_text(json.dumps(row) + "\n")
    return root
