"""Four real LibriTTS clips laid out as the corpus lies on disk."""

from pathlib import Path

import soundfile

FOLDER = Path(__file__).parent / "assets" / "libritts"
TARGETS = ("8230_279154_000019_000000", "4077_13754_000003_000005")
PROMPTS = ("8230_279154_000004_000008", "4077_13754_000013_000005")


def texts() -> dict[str, str]:
    """Texts by id, from the table beside the clips."""
    lines = (FOLDER / "README.md").read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {key: text for key, text in cells if "_" in key}


def lay_out(folder: Path) -> Path:
    """`folder/LibriTTS/test-clean/...`: wav, both texts, and the chapters' tables."""
    for key, text in texts().items():
        speaker, chapter, *_ = key.split("_")
        place = folder / "LibriTTS" / "test-clean" / speaker / chapter
        place.mkdir(parents=True, exist_ok=True)
        wave, rate = soundfile.read(FOLDER / f"{key}.flac", dtype="int16")
        soundfile.write(place / f"{key}.wav", wave, rate)
        (place / f"{key}.normalized.txt").write_text(text)
        (place / f"{key}.original.txt").write_text(text)
        stem = f"{speaker}_{chapter}"
        with (place / f"{stem}.trans.tsv").open("a") as table:
            table.write(f"{key}\t{text}\t{text}\n")
        with (place / f"{stem}.book.tsv").open("a") as table:
            table.write(f"{key}\t{text}\t{text}\ttrue\t0.0\t30.0\n")
    return folder


def unicats(path: Path, *extra: str) -> Path:
    """A list of the two targets with their prompts, and other lines."""
    lines = [f"{t} {p}" for t, p in zip(TARGETS, PROMPTS, strict=True)]
    path.write_text("\n".join([*lines, *extra]) + "\n")
    return path
