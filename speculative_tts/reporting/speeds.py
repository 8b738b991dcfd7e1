"""How fast the papers' systems are by the clock of several processes, with nothing else measured.

The papers' tables time one process of their many utterances; here few utterances are timed in five,
which is what a speed that is quoted needs (`evaluation.processes`).
"""

from collections.abc import Mapping

from speculative_tts.reporting import claims, drafters
from speculative_tts.reporting.definitions import (
    Column,
    Panel,
    Report,
    Row,
    TableDefinition,
    columns,
)
from speculative_tts.reporting.experiments import TINY, Scale

SPECULATION = columns("acceptance_length speedup tpot_speedup")
UNCACHED = (*columns("time_per_token_ms"), Column("speedup", over="uncached"))
CHOSEN = {  # by table: its title, columns, and the systems of the claims that it shows
    "ssd": ("SSD with a second model", SPECULATION, ("exact", "ssd0.2", "ssd0.4", "far")),
    "pcg": (
        "PCG with a second model, drawn by its paper's sampler",
        SPECULATION,
        ("exact", "ssd0.3", "pcg10.3", "pcg140"),
    ),
    "mtp": ("heads without verification", columns("speedup"), ("best4", "best8")),
    "uncached": ("heads and the target without a cache", UNCACHED, ("uncached", "bare8")),
}
OF = {"uncached": "mtp"}  # whose claims a table's systems are of, where its name is another

FASTEST = ("recurrent-5", "ssd-0.3-6", "pcg-140-6")  # rows of the drafters' table


def _table(
    name: str, title: str, shown: tuple[Column, ...], rows: Mapping[str, Row]
) -> TableDefinition:
    return TableDefinition(
        name=name,
        title=f"Speeds: {title}",
        paper=drafters.NOT_PUBLISHED,
        rows=rows,
        panels=(Panel("Speed over the target alone", shown),),
    )


def report(_scale: Scale) -> Report:
    """The report; it has one scale."""
    claimed = {one.name: one.rows for one in claims.report(TINY).claims}
    fine = drafters.report(TINY).tables[0].rows
    tables = [
        _table(name, title, shown, {key: claimed[OF.get(name, name)][key] for key in keys})
        for name, (title, shown, keys) in CHOSEN.items()
    ]
    recurrent = {key: fine[key] for key in FASTEST}
    tables.append(_table("recurrent", "the recurrent layer", SPECULATION, recurrent))
    return Report(
        name="speeds",
        title="Speeds over several processes",
        introduction=(
            "The papers' systems beside the target alone in the same process, in five processes "
            "one after the other: speedups with intervals over processes and utterances."
        ),
        tables=tuple(tables),
        figures=(),
        listening="",
        contrast=(FASTEST[0], FASTEST[-1]),
    )
