"""Runs and raters for tests of listening tests: short sounds, known opinions."""

from pathlib import Path
from typing import Any

import numpy as np
import scored_runs
import soundfile

from speculative_tts.commands.listen import main
from speculative_tts.listening.key import Key, Role, Trial, read_key
from speculative_tts.records import DecodeRecord, to_row, write_jsonl

RATE = 8000


def make_runs(folder: Path, names: list[str], n: int = 12, seconds: float = 0.3) -> Path:
    """Run folders of systems that spoke the same `n` utterances of three speakers."""
    rng = np.random.default_rng(0)
    for i in range(n):
        speech(folder / "recordings" / f"u{i}.wav", rng, seconds)
        speech(folder / "recordings" / f"p{i % 3}.wav", rng, seconds)
    for name in names:
        rows = []
        for i in range(n):
            speech(folder / name / "audio" / f"u{i}.wav", rng, seconds, 0.05 + 0.02 * i)
            rows.append(to_row(record(f"u{i}", f"speaker{i % 3}")))
        write_jsonl(folder / name / "records.jsonl", rows)
        (folder / name / "DONE").touch()
    return folder


def record(key: str, speaker: str, text: str = "alpha two") -> DecodeRecord:
    voice = f"../recordings/p{speaker[-1]}.wav"
    own = {"speaker": speaker, "text": text, "prompt_text": "bravo", "prompt_audio": voice}
    return scored_runs.record(key, reference_audio=f"../recordings/{key}.wav", **own)


def speech(path: Path, rng: np.random.Generator, seconds: float, loudness: float = 0.2) -> None:
    """Something with an envelope, at its own level."""
    time = np.arange(int(seconds * RATE)) / RATE
    wave = np.sin(2 * np.pi * rng.uniform(150, 400) * time) * (1.1 + np.sin(40 * time))
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, loudness * (wave + 0.05 * rng.standard_normal(len(time))), RATE)


def make_test(folder: Path, runs: Path, *settings: str) -> Key:
    """A test made by the command."""
    assert main(["make", f"folder={folder}", f"runs={runs}", *settings]) == 0
    return read_key(folder)


def rated(
    key: Key, truth: dict[str, float], seed: int, careless: tuple[int, ...] = ()
) -> list[Any]:
    """Sheets of raters who hear systems as `truth` has them; the `careless` answer at random.

    What is felt is the truth, a rater's leaning, an utterance's ease and noise, all uniform and so
    small that none leaves 1 to 5. It is rounded up or down at random: its expectation is the truth.
    """
    rng = np.random.default_rng(seed)
    said = sorted({one.utterance for one in key.clips.values()})
    ease = dict(zip(said, rng.uniform(-0.3, 0.3, len(said)), strict=True))

    def felt(name: str, leaning: float) -> float:
        clip = key.clips[name]
        if clip.role is not Role.system:
            return 5.0 if clip.role is Role.high else 1.0
        opinion = truth[clip.system] + leaning + ease[clip.utterance] + rng.uniform(-1, 1)
        assert 1 < opinion < 5
        return float(np.floor(opinion + rng.uniform()))

    def answer(trial: Trial, leaning: float) -> list[float]:
        values = [felt(clip, leaning) for clip in trial.clips]
        if len(values) > 1:
            values = [values[1] - values[0]]
        return [float(np.clip(one, key.scale.least, key.scale.most)) for one in values]

    def at_random() -> list[float]:
        return [float(rng.integers(key.scale.least, key.scale.most + 1))]

    sheets = []
    for number, trials in enumerate(key.raters, start=1):
        leaning = rng.uniform(-0.5, 0.5)
        given = [at_random() if number in careless else answer(t, leaning) for t in trials]
        rows = [
            {"trial": place, "values": values, "seconds": 3.5, "plays": 1}
            for place, values in enumerate(given)
        ]
        sheet = {"test": key.id, "rater": number, "name": f"R{number}", "answers": rows}
        sheets.append(sheet | {"session": f"{number:032x}"})
    return sheets
