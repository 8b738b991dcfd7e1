"""Write the word errors of the sentence target's voices, heard by Whisper base.

    python scripts/voices.py results   # writes results/sentences/voices.md and .csv

They follow from scores that ship. `voices.json` beside the list says which voices do not speak.
"""

import sys
from pathlib import Path

import numpy as np
from differences import BASE_CODEC, BASE_SPOKEN, WER, by_base, scores, write

from speculative_tts.assets import resolve
from speculative_tts.evaluation import statistics
from speculative_tts.evaluation.compare import compare_rows
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.statistics import Array
from speculative_tts.evaluation.summary import Bootstrap, interval, select
from speculative_tts.reporting import tables
from speculative_tts.typed import read_json

NAME = "sentences/voices"
LEFT_OUT = read_json(resolve("tiny:testset_sentences/voices.json"))["left_out"]
VOICES = ("slt", "rms", "awb")
SPEAK = tuple(voice for voice in VOICES if voice not in LEFT_OUT)
GROUPS = {
    "voices that speak": SPEAK,
    "all three": VOICES,
    **{voice: (voice,) for voice in VOICES},
}
HEADINGS = {group: tables.Heading(group, "", "_".join(of)) for group, of in GROUPS.items()}
(TARGET, EXACT), (TARGET0, _) = by_base("target exact", 0, 1, 2), by_base("target exact", 0)
SYSTEMS = {
    "recordings": ("Recordings (40 sentences a voice)", BASE_SPOKEN),
    "codec": ("Recordings through the codec (40 a voice)", BASE_CODEC),
    "target0": ("Target alone (80 a voice, seed 0)", TARGET0),
    "target": ("Target alone (80 a voice, three seeds)", TARGET),
    "exact": ("The exact rule by the 7-layer draft (80 a voice, three seeds)", EXACT),
}
LOST = "Through the codec minus recordings, points"
WORSE = {
    "worse0": ("Target alone minus the voices that speak, seed 0, points", "target0"),
    "worse": ("Target alone minus the voices that speak, three seeds, points", "target"),
}


def words(rows: list[ScoreRow], voices: tuple[str, ...]) -> tables.Cell:
    """Return the word errors of some voices."""
    found = interval([row for row in rows if row.voice in voices], METRICS[WER], Bootstrap())
    return tables.Cell.of(found.scaled(100.0))


def lost(spoken: list[ScoreRow], coded: list[ScoreRow], voices: tuple[str, ...]) -> tables.Cell:
    """Return what a codec costs some voices, paired by sentence."""
    a, b = ([row for row in rows if row.voice in voices] for rows in (spoken, coded))
    return tables.Cell.of(compare_rows(a, b, WER, Bootstrap()).scaled(100.0), signed=True)


def worse(rows: list[ScoreRow], voice: str) -> tables.Cell:
    """Return how much more a voice errs than those that speak, which say other sentences."""
    kept, words = select([row for row in rows if row.voice in (voice, *SPEAK)], METRICS[WER])
    own = np.array([[row.voice == voice] for row in kept])
    _, columns = statistics.average_seeds(
        [row.id for row in kept], np.concatenate([words * ~own, words * own], axis=1)
    )

    def difference(sums: Array) -> Array:
        return statistics.ratio(sums[..., 2:]) - statistics.ratio(sums[..., :2])

    return tables.Cell.of(statistics.bootstrap(columns, difference).scaled(100.0), signed=True)


def table(results: Path) -> tables.Table:
    """Return a line for each system, a column for each group of voices."""
    rows = {key: scores(results, system) for key, (_, system) in SYSTEMS.items()}
    lines = {
        key: {tables.SYSTEM: tables.Cell(SYSTEMS[key][0])}
        | {heading: words(of, GROUPS[group]) for group, heading in HEADINGS.items()}
        for key, of in rows.items()
    }
    differences = {tables.SYSTEM: tables.Cell(LOST)} | {
        heading: lost(rows["recordings"], rows["codec"], GROUPS[group])
        for group, heading in HEADINGS.items()
    }
    left_out = {
        key: {tables.SYSTEM: tables.Cell(label)}
        | {
            heading: worse(rows[system], group) if group in LEFT_OUT else tables.Cell("")
            for group, heading in HEADINGS.items()
        }
        for key, (label, system) in WORSE.items()
    }
    return tables.Table(
        name=NAME,
        title="Word errors of the sentence target's voices (%, Whisper base)",
        caption=(f"Left out of sst-speak: {', '.join(LEFT_OUT)}.",),
        origin=("`python scripts/voices.py results`, of the scores that ship",),
        speech="Recordings and speakers are synthetic: Flite voices.",
        blocks={
            "Words": lines,
            "What the codec costs": {"lost": differences},
            "The voice that does not speak (other sentences: not paired)": left_out,
        },
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]), table(Path(sys.argv[1])))
