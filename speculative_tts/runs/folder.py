"""The folder of a run on disk: the names of its files, and how runs are found below a folder.

Decoding, evaluation and reporting all read them here. Nothing of this needs a model.

    <label>-<signature>/
        config.json, provenance.json    what the run is, and what its results rest on
        records.jsonl, audio/<id>.wav   utterances in the list's order once all are decoded
        failed.jsonl                    utterances that a model broke down on, and why
        DONE                            empty; there once every utterance has a record
        scores.jsonl, summary.json      by sst-eval; alone where it scored a list of other audio
        listening.json                  by sst-listen, means of listeners
"""

import re
from pathlib import Path
from typing import Any

from speculative_tts.files import write_atomic
from speculative_tts.records import DecodeRecord, read_rows
from speculative_tts.typed import read_json

CONFIG, PROVENANCE = "config.json", "provenance.json"
RECORDS, FAILED, DONE = "records.jsonl", "failed.jsonl", "DONE"
SCORES, SUMMARY, HEARD = "scores.jsonl", "summary.json", "listening.json"
AGAIN = "make the run again"


def audio_name(id_: str) -> str:
    """Return the path of an utterance's audio within the folder."""
    return f"audio/{id_}.wav"


def shared_caches(out: str, cache: str | None) -> Path:
    """Return the folder of what the runs in `out` share, unless another is given."""
    return Path(out, ".caches") if cache is None else Path(cache)


def label_and_signature(name: str) -> tuple[str, str | None]:
    """Return the two parts of a run folder's name; no signature where it has none."""
    match = re.fullmatch(r"(.+)-([0-9a-f]{8})", name)
    return (match[1], match[2]) if match else (name, None)


def is_done(folder: Path) -> bool:
    """Return whether the run is finished: every utterance of its list has a record."""
    return (folder / DONE).exists()


def mark_done(folder: Path) -> None:
    """Mark the run as finished."""
    write_atomic(folder / DONE, "")


def read_records(folder: Path) -> dict[str, DecodeRecord]:
    """Return a run's records by utterance id, none where it has no file of them.

    Of two records of one utterance the last counts; one cut short by a kill is left out.
    """
    path = folder / RECORDS
    rows = read_rows(path, DecodeRecord) if path.is_file() else iter(())
    return {row.id: row for row in rows}


def read_config(folder: Path) -> dict[str, Any]:
    """Return a run's settings, none where it has no file of them."""
    return _read(folder / CONFIG)


def read_provenance(folder: Path) -> dict[str, Any]:
    """Return what a run's results rest on, nothing where it has no file of it."""
    return _read(folder / PROVENANCE)


def _read(path: Path) -> dict[str, Any]:
    return read_json(path, AGAIN) if path.is_file() else {}


def decoded_runs(runs: Path) -> list[Path]:
    """Return `runs` if it is a run folder with records, else those directly inside, by name."""
    if (runs / RECORDS).is_file():
        return [runs]
    return sorted(path for path in runs.iterdir() if (path / RECORDS).is_file())


def configured_runs(runs: Path) -> list[Path]:
    """Return `runs` if it is one, else the run folders inside it, else those inside its folders."""
    for deep in (
        CONFIG,
        f"*/{CONFIG}",
        f"[!.]*/*/{CONFIG}",
    ):  # drafts and exports may lie beside runs
        if own := [path for path in sorted(runs.glob(deep)) if not _is_model(path)]:
            return [path.parent for path in own]
    return []


def settings_beside(runs: Path, remedy: str) -> list[dict[str, Any]]:
    """Return the settings of everything directly inside `runs` that has some."""
    return [read_json(path, remedy) for path in runs.glob(f"*/{CONFIG}")]


def scored_lists(runs: Path) -> list[Path]:
    """Return the folders that have scores and no settings, by name: `runs` or those inside it.

    They are of audio that was not decoded here.
    """
    scored = {path.parent for deep in (SUMMARY, f"*/{SUMMARY}") for path in runs.glob(deep)}
    return sorted(path for path in scored if not (path / CONFIG).exists())


def _is_model(path: Path) -> bool:
    try:
        return "model_type" in read_json(path, AGAIN)
    except ValueError:  # who reads the run says what is wrong with it
        return False
