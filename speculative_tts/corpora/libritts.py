"""LibriTTS and LibriSpeech on disk: where an utterance is, what it says, all of a part.

Both lie in `<root>/<part>/<speaker>/<chapter>/<id>.wav|flac`, so a path is a function of the id.
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
SUFFIXES = (".wav", ".flac")
NAMES = ("LibriTTS", "LibriSpeech")
COPY = "copy it from the corpus again"


def find_root(path: str | None) -> Path:
    """The folder that holds the parts: `path`, or a folder LibriTTS or LibriSpeech in it.

    ValueError when no part is there.
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
    """Parts that are there."""
    return [part for part in PARTS if (root / part).is_dir()]


def locate(root: Path, key: str, parts: list[str]) -> tuple[Path, str] | None:
    """An utterance's audio and part by its id (a_b_... or a-b-...); None when it is nowhere."""
    speaker, chapter, *_ = [*key.replace("-", "_").split("_"), "", ""]
    for part in parts:
        for suffix in SUFFIXES:
            path = root / part / speaker / chapter / f"{key}{suffix}"
            if path.is_file():
                return path, part
    return None


def text_of(audio: Path) -> str | None:
    """The normalised text beside an utterance's audio, in either corpus; None without any."""
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


def split_of(part: str) -> str:
    """Split of the codes store: train, dev or test."""
    return part.partition("-")[0]


def utterances(root: Path, parts: list[str], manifests: Path, workers: int) -> Iterator[Utterance]:
    """All utterances of the parts in order of id, by lhotse, which keeps its manifests.

    ValueError for a part that is not there.
    """
    absent = [part for part in parts if part not in parts_of(root)]
    if absent:
        raise ValueError(f"{root} has no {absent[0]}; it has {', '.join(parts_of(root)) or 'none'}")
    made = _manifests(root, parts, manifests, workers)
    for part in parts:
        recordings = {one.id: one for one in made[part]["recordings"]}
        for said in sorted(made[part]["supervisions"], key=lambda one: str(one.id)):
            yield Utterance(
                id=str(said.id),
                speaker=str(said.speaker),
                split=split_of(part),
                text=str(said.text),
                audio=str(recordings[said.recording_id].sources[0].source),
            )


def _manifests(root: Path, parts: list[str], folder: Path, workers: int) -> dict[str, Any]:
    """Manifests of the parts by lhotse, made once: jobs that run at the same time wait for them.

    lhotse takes a file that is there for a whole one, so what a killed job began must not be.
    """
    prepare = lhotse("recipes.libritts").prepare_libritts
    with held(folder):
        absent = [part for part in parts if not list(folder.glob(f"*_recordings_{part}.*"))]
        if absent:
            with TemporaryDirectory(dir=folder) as scratch:
                prepare(root, dataset_parts=absent, output_dir=scratch, num_jobs=workers)
                for file in sorted(Path(scratch).iterdir(), reverse=True):  # recordings come last
                    os.replace(file, folder / file.name)
    made: dict[str, Any] = prepare(root, dataset_parts=parts, output_dir=folder)
    return made
