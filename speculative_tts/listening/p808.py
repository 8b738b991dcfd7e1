"""Export a test for crowdsourcing: tables and clips for Microsoft's P.808 toolkit (master_script).

The toolkit has its own page, tasks and payment, and its create_trapping_stimuli makes the trapping
clips. A file's name contains its condition, the system's number, where `condition_pattern` finds
it; clips.csv, which stays private, says which system that is.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from speculative_tts.files import copy_atomic, write_atomic
from speculative_tts.listening.key import BlindClip, Key, Role
from speculative_tts.schema.listen import ListeningTest

FOLDER, CLIPS = "p808", "clips"
PATTERN = r".*_c(?P<condition_num>\d{1,2})_.*.wav"
METHODS = {ListeningTest.mos: "acr", ListeningTest.cmos: "ccr"}
GOLD = {Role.high: 5, Role.low: 1}  # right answers; the toolkit also accepts their neighbours
Row = Sequence[str | int]


def require_method(test: ListeningTest) -> str:
    """Return the toolkit's name of a test; raise ValueError for one that it does not have."""
    if test not in METHODS:
        raise ValueError(
            f"p808 has no test={test.name}; give test=mos (ACR) or test=cmos (CCR), or p808=null"
        )
    return METHODS[test]


def export(site_audio: Path, folder: Path, key: Key, address: str) -> Path:
    """Write the tables, and the clips under the toolkit's names; return the folder."""
    method, place = require_method(key.test), folder / FOLDER
    named = _names(key)
    for clip, name in named.items():
        copy_atomic(site_audio / clip, place / CLIPS / name)
    at = {clip: f"{address.rstrip('/')}/{name}" for clip, name in named.items()}
    tables = _acr(key, at) if method == "acr" else _ccr(key, at)
    tables["clips.csv"] = _identities(key, named)
    for name, rows in tables.items():
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        write_atomic(place / name, text.getvalue())
    return place


def _names(key: Key) -> dict[str, str]:
    """Name clips by condition and utterance; clips of no system get a number."""
    systems = {one.name: i for i, one in enumerate(key.systems)}
    numbers = {name: i for i, name in enumerate(sorted({c.utterance for c in key.clips.values()}))}
    names = {}
    for i, (blind, clip) in enumerate(sorted(key.clips.items())):
        utterance = f"u{numbers[clip.utterance]:04d}"
        condition = f"c{systems[clip.system]:02d}" if clip.system else f"g{i:04d}"
        names[blind] = f"listening_{condition}_{utterance}.wav"
    return names


def _acr(key: Key, at: Mapping[str, str]) -> dict[str, list[Row]]:
    clips = key.clips.items()
    training = [clip for trial in key.training for clip in trial.clips]
    return {
        "rating_clips.csv": _table(
            ["rating_clips"], ([at[name]] for name, one in clips if one.role is Role.system)
        ),
        "training_clips.csv": _table(["training_clips"], ([at[name]] for name in training)),
        "gold_clips.csv": _table(
            ["gold_clips", "gold_clips_ans"],
            ([at[name], GOLD[one.role]] for name, one in clips if one.role in GOLD),
        ),
    }


def _ccr(key: Key, at: Mapping[str, str]) -> dict[str, list[Row]]:
    """Pair each other system with the baseline; training pairs recordings with corrupted ones."""
    systems = [(name, one) for name, one in key.clips.items() if one.role is Role.system]
    baseline = {one.utterance: name for name, one in systems if one.system == key.systems[0].name}
    pairs = [
        [at[name], at[baseline[one.utterance]]]
        for name, one in systems
        if one.system != key.systems[0].name
    ]
    training = [[at[clip] for clip in trial.clips] for trial in key.training]
    return {
        "rating_clips.csv": _table(["rating_clips", "references"], pairs),
        "training_clips.csv": _table(["training_clips", "training_references"], training),
    }


def _identities(key: Key, named: Mapping[str, str]) -> list[Row]:
    def row(clip: BlindClip, name: str) -> Row:
        return [name, clip.role.name, clip.system, clip.utterance]

    rows = (row(key.clips[blind], name) for blind, name in named.items())
    return _table(["file", "role", "system", "utterance"], rows)


def _table(heading: Row, rows: Iterable[Row]) -> list[Row]:
    return [heading, *rows]
