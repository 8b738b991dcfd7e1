"""Speech while it is being made: what lookahead, rule and size of pieces do to the first audio."""

from speculative_tts.reporting.definitions import Panel, Report, Row, TableDefinition, columns
from speculative_tts.reporting.experiments import Scale, method, read
from speculative_tts.reporting.paper import PaperTable

MADE_BY = read("streaming")
NOT_PUBLISHED = PaperTable(source="", measured={}, rows={})  # no paper has such a table
METHODS = {"target": "Target alone", "ssd": "SSD", "pcg": "PCG", "mtp": "Heads, unverified"}


def _rows() -> dict[str, Row]:
    rows = {}
    for chunk in MADE_BY.values("chunk"):
        for name, label in METHODS.items():
            drafted = name in {"ssd", "pcg"}
            for k in MADE_BY.values("lookahead") if drafted else (None,):
                where = {**method(name), "chunk": chunk}
                where |= {"lookahead": k} if drafted else {}
                where |= {"heads.n": MADE_BY.values("heads.n")[0]} if name == "mtp" else {}
                text = f"{label}, lookahead {k}" if drafted else label
                rows[f"{name}{k or ''}c{chunk}"] = Row(
                    f"{text}, pieces of {chunk}", where, rule_above=name == "target"
                )
    return rows


def report(_scale: Scale) -> Report:
    """The report; it has one scale."""
    first, *_, last = rows = _rows()
    return Report(
        name="streaming",
        title="Speech while it is being made",
        introduction=(
            "The same systems heard while they speak: when the first piece can be played, and "
            "whether the next one is always there in time. A larger lookahead makes tokens "
            "cheaper, and the first round longer."
        ),
        tables=(
            TableDefinition(
                name="streaming",
                title="Time to first audio: real-time factor and gaps too, by size of pieces",
                experiment=MADE_BY.name,
                paper=NOT_PUBLISHED,
                rows=rows,
                panels=(
                    Panel("Streams", columns("first_audio_ms stream_rtf gaps gap_ms speedup wer")),
                ),
                notes=(
                    (
                        "Pieces are decoded with all codes before them, and two codes ahead: their "
                        "samples are those of the whole utterance."
                    ),
                ),
            ),
        ),
        figures=(),
        listening="",
        contrast=(first, last),
    )
