"""How well the shipped tiny system speaks, beside the goals that it was made for."""

from speculative_tts.reporting.definitions import Column, Panel, Report, Row, TableDefinition
from speculative_tts.reporting.paper import PaperTable

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

TINY_SYSTEM = TableDefinition(
    name="tiny_system",
    title="The tiny system: target, codec and recordings beside their goals",
    experiment="tiny_system",
    paper=GOALS,
    rows={
        "target": Row("Target alone", {"system": "target"}),
        "codec": Row("Recordings through the codec", {"system": "codec"}),
        "reference": Row("Recordings", {"system": "reference"}),
    },
    panels=(
        Panel("Words", (Column("wer", "wer"), Column("cer"))),
        Panel(
            "Voice and length",
            (
                Column("similarity"),
                Column("similarity_floor"),
                Column("stopped_at_max", "stopped_at_max"),
                Column("length_ratio"),
            ),
        ),
    ),
)

REPORT = Report(
    name="tiny",
    title="The tiny system",
    introduction=(
        "A small speech system ships with the package: what its judges say of it, of its codec "
        "and of the recordings that it was made from."
    ),
    tables=(TINY_SYSTEM,),
    figures=(),
    listening="tiny_system",
    contrast=("reference", "target"),
)
