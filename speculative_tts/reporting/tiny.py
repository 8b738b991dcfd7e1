"""How well the shipped tiny system speaks, beside the goals that it was made for."""

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


MADE_BY = read("tiny_system")
TINY_SYSTEM = TableDefinition(
    name="tiny_system",
    title="The tiny system: target, codec and recordings beside their goals",
    experiment=MADE_BY.name,
    paper=GOALS,
    rows=of_methods(
        MADE_BY,
        {
            "target": Row("Target alone", method("target")),
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
FRESH = TableDefinition(
    name="fresh",
    title="The target on the test list, and on sentences and voice prompts that nothing has seen",
    experiment=FRESH_MADE_BY.name,
    paper=PaperTable(source="", measured={}, rows={}),
    rows={
        name: Row(
            label,
            {
                "system": FRESH_MADE_BY.settings["system"],
                **flatten(configuration(f"data/{name}"), "data."),
            },
        )
        for name, label in zip(
            FRESH_MADE_BY.values("data"),
            ("The test list", "New sentences from new prompts"),
            strict=True,
        )
    },
    panels=(Panel("Words and voice", columns("wer cer similarity stopped_at_max length_ratio")),),
    notes=("The goal: word errors within 2 points of the test list's.",),
)

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
        tables=(TINY_SYSTEM, FRESH),
        figures=(),
        listening="tiny_system",
        contrast=("reference", "target"),
        speakers=(SPEAKERS, VOICES),
    )
