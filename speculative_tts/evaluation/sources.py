"""Read what can be scored: run folders of sst-decode, and other audio given as a list."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from speculative_tts import assets
from speculative_tts.evaluation.judges.pocketsphinx import TINY_WORDS
from speculative_tts.evaluation.rows import LISTED, ScoreRow, foreign_row, row_of
from speculative_tts.ids import FILE_NAME, check_id, check_ids
from speculative_tts.records import read_rows, spread
from speculative_tts.runs.folder import (
    RECORDS,
    decoded_runs,
    is_done,
    label_and_signature,
    read_config,
    read_records,
)
from speculative_tts.typed import read_json, typed

CODES_ONLY = "codes"  # the codec that `codecs.codes_only` is
OWN_ID = "give each row of a system an id of its own, and several systems a key `system`"


@dataclass(frozen=True)
class Source:
    """Utterances of one system, the folder for their scores, and the summary's entry on the run."""

    folder: Path
    samples: list[ScoreRow]
    run: dict[str, Any]
    words: tuple[str, ...] = TINY_WORDS  # vocabulary of the word grammar
    notes: list[str] = field(default_factory=list)  # shown to the user
    silent: str | None = None  # why its audio holds no speech

    @property
    def label(self) -> str:
        """Name of the system in tables."""
        return str(self.run["label"])


def find_runs(runs: Path, limit: int | None = None) -> list[Source]:
    """Read one run folder, or all run folders directly inside a folder, in order of name."""
    if not runs.is_dir():
        raise ValueError(
            f"runs={runs} is not a folder; run sst-decode first, or give runs=<folder>"
        )
    folders = decoded_runs(runs)
    if not folders:
        raise ValueError(
            f"runs={runs} holds no run (a folder with {RECORDS}); run sst-decode first"
        )
    return [read_run(folder, limit) for folder in folders]


def read_run(folder: Path, limit: int | None = None) -> Source:
    """Read a run folder; a record cut short by a kill is left out, the run noted as incomplete."""
    records, complete = list(read_records(folder).values()), is_done(folder)
    unfinished = f"{folder.name}: decoding has not finished, {len(records)} utterances so far"
    samples = [row_of(folder, record) for record in spread(records, limit)]
    label, signature = label_and_signature(folder.name)
    run = {"label": label, "signature": signature, "complete": complete}
    config = read_config(folder)
    notes = [] if complete else [unfinished]
    return Source(folder, samples, run, vocabulary(config), notes, _silent(config))


def decoded_rows(folder: Path) -> list[ScoreRow]:
    """Return the rows of a run's utterances before any judge: what decoding counted."""
    return [row_of(folder, record) for record in read_records(folder).values()]


def _silent(config: dict[str, Any]) -> str | None:
    """Return why a run has no speech to hear, if its codec keeps the codes alone."""
    codec = config.get("codec")
    if not isinstance(codec, dict) or codec.get("name") != CODES_ONLY:
        return None
    return (
        f"codec={CODES_ONLY} makes no audio, its waves are silence: nothing was heard; give "
        "metrics=[] for speed and acceptance alone, or decode with the target's own codec"
    )


def vocabulary(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the words of the target's speech.json, or the tiny system's if there is none."""
    target = config.get("target")
    path = target.get("path") if isinstance(target, dict) else None
    if not isinstance(path, str) or path in {"", "???"}:
        return TINY_WORDS
    file = assets.resolve(path) / "speech.json"
    words = typed(_Layout, read_json(file), file).words if file.is_file() else None
    return words or TINY_WORDS


@dataclass(frozen=True)
class _Layout:
    """The part of a target's speech.json that scores need."""

    words: tuple[str, ...] | None = None


def read_external(path: Path, out: Path | None = None, limit: int | None = None) -> list[Source]:
    """Read other systems' list: JSONL rows of id, text, audio and, for similarity, prompt_audio.

    Optional keys: system, speaker, reference_audio (for the length ratio), seed. Paths are relative
    to the list. Scores go to `out`, by default to `<list>-scores` beside the list; of rows with a
    system to `<that>-<system>`, and ids may repeat across systems.
    """
    if not path.is_file():
        raise ValueError(
            f"list={path} not found; give a JSONL file of id, text, audio, prompt_audio"
        )
    rows = list(read_rows(path, ScoreRow, whole=True, only=LISTED))
    if not rows:
        raise ValueError(f"list={path} has no rows; give one JSON object a line: id, text, audio")
    systems: dict[str, list[ScoreRow]] = {}
    for row in rows:
        systems.setdefault(row.system, []).append(foreign_row(path.parent.absolute(), row))
    plain = out or path.with_name(f"{path.stem}-scores")
    return [
        _external(path, name, samples, plain, plain.name if out else path.stem, limit)
        for name, samples in systems.items()
    ]


def _external(
    path: Path, system: str, samples: list[ScoreRow], plain: Path, label: str, limit: int | None
) -> Source:
    """Return one system of a list; rows without one take the folder `plain` and the `label`."""
    if system and not FILE_NAME.fullmatch(system):
        raise ValueError(
            f"list={path}: system {system!r} cannot name a folder of scores; give letters, digits, "
            "- and _"
        )
    check_id(path, system or label, "system")
    of = f" of system {system}" if system else ""
    check_ids(path, [sample.id for sample in samples], of, OWN_ID)
    folder = plain.with_name(f"{plain.name}-{system}") if system else plain
    run = {"label": system or label, "system": "external", "list": str(path)}
    return Source(folder, spread(samples, limit), run)
