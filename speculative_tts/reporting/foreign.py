"""Audio of other systems that sst-eval scored by a list: a table, and what the page says of it."""

from collections.abc import Sequence

from speculative_tts.evaluation.registry import METRICS
from speculative_tts.reporting.captions import definitions, few, judge_name, judge_names
from speculative_tts.reporting.definitions import Report
from speculative_tts.reporting.runs import Run
from speculative_tts.reporting.tables import SYSTEM, Cell, Heading, Table

REPORT = Report(
    name="others",
    title="Other systems",
    introduction=(
        "Audio that other programs made, heard by the judges that the headings name (sst-eval "
        "list=<JSONL>). No language model of ours ran, so nothing is said of its speed."
    ),
    listening="others",
)


def table(foreign: Sequence[Run]) -> Table:
    """Return a table of what was measured, with a line for each system."""
    shown = [
        name for name in METRICS if any(one.measure(name).value is not None for one in foreign)
    ]
    headings = {
        name: Heading(METRICS[name].heading, judge_name(name, foreign), name) for name in shown
    }
    block = {
        one.name: {SYSTEM: Cell(one.name)}
        | {
            heading: Cell.of(one.measure(name).scaled(METRICS[name].scale), METRICS[name].digits)
            for name, heading in headings.items()
        }
        for one in foreign
    }
    differing = [
        f"{METRICS[name].heading}: its systems were not heard by the same judge."
        for name, heading in headings.items()
        if len(judge_names(name, foreign)) > 1
    ]
    return Table(
        "others",
        "Other systems: what the judges heard",
        definitions(shown, foreign),
        [f"{one.name}: {one.summary['run'].get('list', '')}" for one in foreign] + differing,
        warning=few(foreign),
        blocks={"By system": block},
    )
