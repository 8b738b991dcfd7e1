"""Run folders as sst-decode leaves them, of synthetic audio."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from speculative_tts.records import Counts, DecodeRecord, to_row
from speculative_tts.schema.evaluate import EvalConfig

SPEECH = Path(__file__).parent / "assets" / "speech"


def record(key: str, **changes: Any) -> DecodeRecord:
    """A speculative record with round numbers; `changes` are of it and of its counts."""
    values: dict[str, Any] = {
        "id": key,
        "speaker": f"speaker {key[-1]}",
        "text": "kilo seven india",
        "prompt_text": "",
        "prompt_audio": str(SPEECH / "rms_zulu_four_tango_nine.flac"),
        "reference_audio": None,
        "seed": 0,
        "audio": f"audio/{key}.wav",
        "codes": [1] * 24,
        "tokens": 25,
        "stop": "stop_id",
        "audio_seconds": 1.0,
        "lm_seconds": 0.5,
        "rounds": 10,
        "drafted_per_position": [10, 10, 10],
        "accepted_per_position": [8, 5, 2],
        "residuals": 8,
        "bonuses": 2,
        "baseline_tokens": 20,
        "baseline_seconds": 0.8,
    }
    values |= changes
    counts = {one.name: values.pop(one.name) for one in fields(Counts) if one.name in values}
    return DecodeRecord(counts=Counts(**counts), **values)


def write_run(
    folder: Path, records: list[DecodeRecord], config: dict[str, Any] | None = None
) -> Path:
    """A run folder as sst-decode leaves it, each utterance a tone of its own."""
    (folder / "audio").mkdir(parents=True)
    times = np.arange(16_000) / 16_000
    for number, one in enumerate(records):
        tone = 0.3 * np.sin(2 * np.pi * (200 + 10 * number) * times)
        soundfile.write(folder / one.audio, tone, 16_000)
    lines = [json.dumps(to_row(one)) + "\n" for one in records]
    (folder / "records.jsonl").write_text("".join(lines))
    settings = {"system": "speculative", "seed": 0, "rule": {"name": "exact", "beta": 0.0}}
    (folder / "config.json").write_text(json.dumps(settings | (config or {})))
    (folder / "DONE").touch()
    return folder


def settings(runs: Path, /, **changes: Any) -> EvalConfig:
    """Of sst-eval: one judge, that of `loud_judge`, in this process."""
    values: dict[str, Any] = {"runs": str(runs), "metrics": ["loud"], "workers": 1, "draws": 200}
    return EvalConfig(**values | changes)


def summary_of(folder: Path) -> dict[str, Any]:
    """What was written of a scored folder."""
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found
