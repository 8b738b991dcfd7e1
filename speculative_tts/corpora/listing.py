"""Make test lists of real corpora: join published ids with a corpus on disk, as `ListItem` rows."""

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from speculative_tts.codecs.audio import duration
from speculative_tts.corpora.libritts import SUFFIXES, locate, text_of
from speculative_tts.corpora.published import Listed
from speculative_tts.ids import check_names
from speculative_tts.records import ListItem, to_row, write_jsonl
from speculative_tts.texts import some

PROMPT_SECONDS = (2.5, 4.5)  # of a random list: about UniCATS's 3 s
SHORTEST = 1.0  # seconds of a random list's utterance


@dataclass(frozen=True)
class Listing:
    """A joined list: its rows, and those left out."""

    items: list[ListItem]
    leaks: list[str] = field(default_factory=list)  # their own prompt, left out
    missing: dict[str, str] = field(default_factory=dict)  # id -> what is not there
    unreadable: list[str] = field(default_factory=list)  # files of a corpus that are no audio


def join(
    rows: list[Listed], root: Path | None, parts: list[str], beside: Path, *, keep_leaks: bool
) -> Listing:
    """Join rows with a corpus at `root` (None: all is in the list, paths relative to `beside`)."""
    made = Listing([])
    for row in rows:
        if row.leaks and not keep_leaks:
            made.leaks.append(row.id)
            continue
        item = _item(row, root, parts, beside)
        if isinstance(item, str):
            made.missing[row.id] = item
        else:
            made.items.append(item)
    return made


def _item(row: Listed, root: Path | None, parts: list[str], beside: Path) -> ListItem | str:
    """Return the joined row, or a text that names what it lacks."""
    audio, part = _audio(row.id, row.audio, root, parts, beside)
    prompt, _ = _audio(row.prompt_id, row.prompt_audio, root, parts, beside)
    if prompt is None:
        return f"prompt {row.prompt_audio or row.prompt_id}"
    if audio is None and (row.audio is not None or row.prompt_audio is None):
        return f"audio {row.audio or row.id}"  # a list of paths may have no recording of a row
    if broken := [path.name for path in (prompt, audio) if path and not duration(path)]:
        return f"sound in {broken[0]}"
    text = row.text or (text_of(audio) if audio else None)
    prompt_text = row.prompt_text or text_of(prompt)
    if not text or not prompt_text:
        return f"text of {row.id if not text else row.prompt_id}"
    return ListItem(
        id=row.id,
        text=text,
        prompt_audio=str(prompt),
        prompt_text=prompt_text,
        speaker=row.id.replace("-", "_").partition("_")[0] if part else "",
        reference_audio=str(audio) if audio else None,
        seen=part.startswith("train") if part else None,
    )


def _audio(
    key: str, named: str | None, root: Path | None, parts: list[str], beside: Path
) -> tuple[Path | None, str]:
    """Return an utterance's audio and its part ("" when the list names the file)."""
    if named is not None:
        path = beside / named
        return (path.resolve() if path.is_file() else None), ""
    found = locate(root, key, parts) if root is not None else None
    return (found[0].resolve(), found[1]) if found else (None, "")


def recordings(root: Path, parts: list[str]) -> tuple[dict[Path, float], list[str]]:
    """Return the seconds of each recording of a corpus, and the names of unreadable files."""
    there = [
        path
        for part in parts
        for path in sorted(p for s in SUFFIXES for p in (root / part).glob(f"*/*/*{s}"))
    ]
    seconds = {path: duration(path) or 0.0 for path in there}
    unreadable = [str(path.relative_to(root)) for path in there if not seconds[path]]
    return {path: length for path, length in seconds.items() if length}, unreadable


def draw(seconds: Mapping[Path, float], n_rows: int | None, seed: int) -> list[Listed]:
    """Draw random utterances, each with a short prompt of its speaker, of another chapter if any.

    `n_rows` None: all of them. ValueError when there are too few.
    """
    by_speaker: dict[str, list[Path]] = defaultdict(list)
    for path in seconds:
        by_speaker[path.parts[-3]].append(path)
    rng = random.Random(seed)
    low, high = PROMPT_SECONDS
    rows = []
    for own in by_speaker.values():
        for said in own:
            short = [p for p in own if p.stem != said.stem and low <= seconds[p] <= high]
            prompts = [p for p in short if p.parent != said.parent] or short
            if seconds[said] >= SHORTEST and prompts:
                rows.append(Listed(said.stem, rng.choice(prompts).stem))
    if n_rows is None:
        return rows
    if len(rows) < n_rows:
        raise ValueError(
            f"rows={n_rows}, but there are only {len(rows)} utterances with a prompt of {low} to "
            f"{high} s; give rows={len(rows)} or fewer, or further parts"
        )
    return sorted(rng.sample(rows, n_rows), key=lambda row: row.id)


def write(made: Listing, path: Path, *, allow_missing: bool, strict: bool = False) -> list[str]:
    """Write the list; return lines about the rows left out.

    ValueError when rows are missing and that is not allowed, when files are unreadable and `strict`
    is set, no row is left, or ids do not each name a file.
    """
    lines = []
    if made.unreadable:
        text = f"{len(made.unreadable)} files are not readable audio: {some(made.unreadable)}"
        if strict:
            raise ValueError(f"{text}; get them again, or leave them out with strict=false")
        lines.append(f"{text}; left out")
    if made.leaks:
        lines.append(
            f"{len(made.leaks)} of the rows are their own prompt and were left out: "
            f"{some(made.leaks)} (keep_leaks=true keeps them)"
        )
    if made.missing:
        named = some([f"{key} ({what})" for key, what in made.missing.items()])
        total = len(made.items) + len(made.missing)
        text = f"{len(made.missing)} of {total} rows are missing: {named}"
        if not allow_missing:
            raise ValueError(f"{text}; get them, or leave them out with allow_missing=true")
        lines.append(f"{text}; left out")
    if not made.items:
        raise ValueError(f"{path} would have no rows; check path and parts")
    check_names(path, [item.id for item in made.items])
    write_jsonl(path, map(to_row, made.items))
    return lines
