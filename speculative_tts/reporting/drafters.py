"""How fast each drafter is by the clock: a process a seed, as a process keeps its luck."""

from itertools import product

from speculative_tts.reporting.definitions import Panel, Report, Row, TableDefinition, columns
from speculative_tts.reporting.experiments import Experiment, Scale, read
from speculative_tts.reporting.paper import PaperTable

NOT_PUBLISHED = PaperTable(source="", measured={}, rows={})  # no paper has such a table
LABELS = {  # by experiment
    "recurrent": "recurrent layer, exact",
    "second": "second model, exact",
    "ssd": "recurrent layer, SSD",
    "pcg": "recurrent layer, PCG",
    "small": "recurrent layer, exact",
}
KEYS = ("system", "target.name", "drafter.name", "rule.name")
WORDS = {"rule.beta": "β", "rule.groups.mean_size": "groups of", "lookahead": "lookahead"}
NOTE = (
    "A seed is a process of its own: what a process gets of memory and caches it keeps, so that "
    "one setting differs more between processes than between a process's utterances."
)


def _rows(*names: str) -> dict[str, Row]:
    """A row a point of the experiments' sweeps."""
    rows = {}
    for name in names:
        made_by = read(f"drafters/{name}")
        for number, point in enumerate(_points(made_by)):
            swept = ", ".join(f"{WORDS[key]} {value:g}" for key, value in point.items())
            where = {key: made_by.settings[key] for key in KEYS} | point
            key = "-".join([name, *(f"{value:g}" for value in point.values())])
            rows[key] = Row(f"{LABELS[name]}, {swept}", where, rule_above=not number)
    return rows


def _points(experiment: Experiment) -> list[dict[str, float]]:
    return [
        dict(zip(experiment.grid, values, strict=True))
        for values in product(*experiment.grid.values())
    ]


def _table(name: str, title: str, *experiments: str) -> TableDefinition:
    return TableDefinition(
        name=name,
        title=title,
        paper=NOT_PUBLISHED,
        rows=_rows(*experiments),
        panels=(Panel("Speed and words", columns("acceptance_length speedup wer")),),
        notes=(NOTE,),
        spread="sd",
    )


def report(_scale: Scale) -> Report:
    """The report; it has one scale."""
    fine = _table("fine", "Drafters of the fine target", "recurrent", "second", "ssd", "pcg")
    first, *_, last = fine.rows
    return Report(
        name="drafters",
        title="Drafters by the clock",
        introduction=(
            "What drafts decides how fast speculation is: each drafter at several lookaheads, next "
            "to the target alone in the same process, five processes with a seed each."
        ),
        tables=(fine, _table("small", "Drafters of the small target", "small")),
        figures=(),
        listening="",
        contrast=(first, last),
    )
