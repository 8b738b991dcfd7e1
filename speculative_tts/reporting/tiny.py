"""How well the shipped tiny system speaks, beside the goals that it was made for."""

from dataclasses import replace

from speculative_tts.assets import configuration
from speculative_tts.reporting.definitions import (
    Panel,
    Report,
    Row,
    SpeakerTable,
    TableDefinition,
    columns,
)
from speculative_tts.reporting.experiments import Scale, method, read
from speculative_tts.reporting.paper import PaperTable
from speculative_tts.reporting.runs import flatten
from speculative_tts.reporting.systems import of_methods

NO_GOALS = PaperTable(source="", measured={}, rows={})
GOALS = PaperTable(
    source="of the tiny system's recordings, codec and target, on the whole test list",
    called="goal",
    measured={},
    rows={
        "reference": {"wer": "≤ 2"},
        "codec": {"wer": "≤ 4"},
        "target": {"wer": "≤ 8 (aim 5)", "stopped_at_max": "≤ 1"},
    },
    settings="The voice is kept where SIM is clearly above SIM to other speakers",
)
FINE_GOALS = replace(
    GOALS,
    source="of the fine target and its codec, on the whole test list",
    rows={"codec": {"wer": "≤ 3"}, "target": {"wer": "≤ 5", "stopped_at_max": "≤ 1"}},
)
SMALL, FINE = "tiny", "tiny_fine"

MADE_BY = read("tiny_system")


def _system(name: str, title: str, target: str, goals: PaperTable) -> TableDefinition:
    """A target and, as its runs are of one context, its codec; beside the recordings."""
    return TableDefinition(
        name=name,
        title=title,
        experiment=MADE_BY.name,
        paper=goals,
        rows=of_methods(
            MADE_BY,
            {
                "target": Row("Target alone", {**method("target"), "target.name": target}),
                "codec": Row("Recordings through the codec", method("codec")),
                "reference": Row("Recordings", method("reference")),
            },
        ),
        panels=(
            Panel("Words", columns("wer=wer cer")),
            Panel(
                "Voice and length",
                columns("similarity similarity_floor stopped_at_max=stopped_at_max length_ratio"),
            ),
        ),
    )


TINY_SYSTEM = _system(
    "tiny_system", "The tiny system: target, codec and recordings beside their goals", SMALL, GOALS
)
FINE_SYSTEM = _system(
    "fine_system", "The fine target: target, codec and recordings", FINE, FINE_GOALS
)


SPEAKERS = SpeakerTable(
    name="speakers",
    title="The test list by speaker",
    experiment=MADE_BY.name,
    rows=TINY_SYSTEM.rows,
    columns=(
        ("target", "wer"),
        ("target", "word_lost"),
        ("target", "first_word_lost"),
        ("target", "similarity"),
        ("codec", "wer"),
        ("codec", "first_word_lost"),
        ("reference", "wer"),
    ),
)

FRESH_MADE_BY = read("fresh")


def _fresh(name: str, title: str, target: str) -> TableDefinition:
    """A target on the test list and on new sentences."""
    labels = ("The test list", "New sentences from new prompts")
    alone = {"system": FRESH_MADE_BY.settings["system"], "target.name": target}
    return TableDefinition(
        name=name,
        title=f"{title} on the test list, and on sentences and voice prompts that nothing has seen",
        experiment=FRESH_MADE_BY.name,
        paper=NO_GOALS,
        rows={
            data: Row(label, {**alone, **flatten(configuration(f"data/{data}"), "data.")})
            for data, label in zip(FRESH_MADE_BY.values("data"), labels, strict=True)
        },
        panels=(
            Panel("Words and voice", columns("wer cer similarity stopped_at_max length_ratio")),
        ),
        notes=("The goal: word errors within 2 points of the test list's.",),
    )


FRESH = (_fresh("fresh", "The target", SMALL), _fresh("fine_fresh", "The fine target", FINE))

SPOKEN = read("voices")
SPOKEN_BY = ("target.name", "drafter.name", "rule.name", "data.name")
VOICES = SpeakerTable(
    name="voices",
    title="The voices on the same held-out strings",
    experiment=SPOKEN.name,
    rows={
        "spoken": Row(
            "sst-speak",
            {key: SPOKEN.settings[key] for key in ("system", *SPOKEN_BY)},
        ),
    },
    columns=tuple(("spoken", name) for name in ("wer", "word_lost", "first_word_lost")),
    notes=(
        "Every voice says the same strings of the dev list, from its prompt of the test list.",
        "The first one is the voice that sst-speak takes by itself.",
    ),
)


def report(_scale: Scale) -> Report:
    """The report; it has one scale."""
    return Report(
        name="tiny",
        title="The tiny system",
        introduction=(
            "A small speech system ships with the package: what its judges say of it, of its codec "
            "and of the recordings that it was made from."
        ),
        tables=(TINY_SYSTEM, FINE_SYSTEM, *FRESH),
        figures=(),
        listening="tiny_system",
        contrast=("reference", "target"),
        speakers=(SPEAKERS, VOICES),
    )
