"""Read LibriTTS and LibriSpeech on disk: find an utterance, its text, all utterances of a part.

Both have files `<root>/<part>/<speaker>/<chapter>/<id>.wav|flac`, so a path follows from the id.
Training data are read by lhotse, which checks the corpus and keeps its manifests.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from speculative_tts.corpora.utterance import Utterance, lhotse
from speculative_tts.files import held
from speculative_tts.texts import read_lines, read_text

PARTS = (
    *("dev-clean", "dev-other", "test-clean", "test-other"),
    *("train-clean-100", "train-clean-360", "train-other-500"),
)
SUFFIXES = (".wav", ".flac", ".WAV", ".FLAC")
NAMES = ("LibriTTS", "LibriSpeech")
COPY = "copy it from the corpus again"


def find_root(path: str | None) -> Path:
    """Find the folder that holds the parts: `path`, or a folder LibriTTS or LibriSpeech in it.

    Raise ValueError when no part is there.
    """
    if path is None:
        raise ValueError("path is not set; give path=<folder of LibriTTS>")
    for root in (Path(path), *(Path(path) / name for name in NAMES)):
        if parts_of(root):
            return root
    raise ValueError(
        f"path={path} holds no LibriTTS: no folder {', '.join(PARTS[:3])}, ... there or in "
        f"{path}/LibriTTS; get it from https://www.openslr.org/60 and give the folder above"
    )


def parts_of(root: Path) -> list[str]:
    """Return the parts that exist."""
    return [part for part in PARTS if (root / part).is_dir()]


def locate(root: Path, key: str, parts: list[str]) -> tuple[Path, str] | None:
    """Find an utterance's audio and part by its id (a_b_... or a-b-...); None if it is nowhere."""
    speaker, chapter, *_ = [*key.replace("-", "_").split("_"), "", ""]
    for part in parts:
        for suffix in SUFFIXES:
            path = root / part / speaker / chapter / f"{key}{suffix}"
            if path.is_file():
                return path, part
    return None


def text_of(audio: Path) -> str | None:
    """Read the normalised text beside an utterance's audio, in either corpus; None without any."""
    beside = audio.with_suffix(".normalized.txt")
    if beside.is_file():
        return read_text(beside, COPY).strip()
    chapter = audio.parent
    stem = f"{chapter.parent.name}{'-' if '-' in audio.stem else '_'}{chapter.name}.trans"
    for path, column in ((chapter / f"{stem}.tsv", 2), (chapter / f"{stem}.txt", 1)):
        if path.is_file():
            mark = "\t" if column == 2 else " "
            for line in read_lines(path, COPY):
                fields = line.split(mark, column)
                if fields[0] == audio.stem and len(fields) > column:
                    return fields[column].strip()
    return None


def utterances(root: Path, parts: list[str], manifests: Path, workers: int) -> Iterator[Utterance]:
    """Yield all utterances of the parts in order of id; lhotse stores manifests in `manifests`.

    Raise ValueError for a part that does not exist.
    """
    absent = [part for part in parts if part not in parts_of(root)]
    if absent:
        raise ValueError(f"{root} has no {absent[0]}; it has {', '.join(parts_of(root)) or 'none'}")
    _refuse_capitals(root, parts)
    by_part = _manifests(root, parts, manifests, workers)
    for part in parts:
        recordings = {one.id: one for one in by_part[part]["recordings"]}
        for speech in sorted(by_part[part]["supervisions"], key=lambda one: str(one.id)):
            yield Utterance(
                id=str(speech.id),
                speaker=str(speech.speaker),
                split=part.partition("-")[0],
                text=str(speech.text),
                audio=str(recordings[speech.recording_id].sources[0].source),
            )


def _refuse_capitals(root: Path, parts: list[str]) -> None:
    """Raise ValueError for files named .WAV, which lhotse passes over without a word."""
    capitals = [path for part in parts for path in sorted((root / part).rglob("*.WAV"))]
    if capitals:
        raise ValueError(
            f"{len(capitals)} files end in .WAV, which lhotse does not see, the first is "
            f"{capitals[0]}; rename them: find {root} -name '*.WAV' -exec sh -c "
            "'mv \"$1\" \"${1%WAV}wav\"' _ {} ';'"
        )


def _manifests(root: Path, parts: list[str], folder: Path, workers: int) -> dict[str, Any]:
    """Let lhotse make the manifests of the parts once; jobs at the same time wait for them.

    lhotse takes any existing file for a whole one, so a killed job must leave none.
    """
    prepare = lhotse("recipes.libritts").prepare_libritts
    with held(folder):
        absent = [part for part in parts if not list(folder.glob(f"*_recordings_{part}.*"))]
        if absent:
            with TemporaryDirectory(dir=folder) as scratch:
                prepare(root, dataset_parts=absent, output_dir=scratch, num_jobs=workers)
                for file in sorted(Path(scratch).iterdir(), reverse=True):  # recordings come last
                    os.replace(file, folder / file.name)
    manifests: dict[str, Any] = prepare(root, dataset_parts=parts, output_dir=folder)
    return manifests
