"""How fast each drafter is by the clock: a process a seed, as a process keeps its luck."""

from collections.abc import Mapping
from itertools import product

from speculative_tts.reporting.definitions import Panel, Report, Row, TableDefinition, columns
from speculative_tts.reporting.experiments import Experiment, Scale, read
from speculative_tts.reporting.paper import PaperTable
from speculative_tts.reporting.systems import against

NOT_PUBLISHED = PaperTable(source="", measured={}, rows={})  # no paper has such a table
FINE = {  # experiments of the fine target, and what they are called
    "recurrent": "recurrent layer, exact",
    "second": "second model, exact",
    "lookup": "look-up, exact",
    "ssd": "recurrent layer, SSD",
    "pcg": "recurrent layer, PCG",
}
SMALL = {
    "small": "recurrent layer, exact",
    "small_second": "second model, exact",
    "small_heads": "heads, exact",
    "small_ssd": "recurrent layer, SSD",
    "small_pcg": "recurrent layer, PCG",
}
ALONE = ("target.name", "limit")
KEYS = ("target.name", "drafter.name", "rule.name")
SET = ("lookahead", "limit")
SWEPT = {"rule.beta": "β ", "rule.groups.mean_size": "groups of ", "lookahead": "lookahead "}
MODE = "viterbi.mode"
CHOSEN = {"none": "each by itself", "sample": "a path drawn"}  # by `MODE`
IN_8_BITS = (
    "Native rounds draft in 8 bits, torch's in the target's format: other tokens, so SSD and PCG "
    "may err on other words. The exact rule's distribution is the target's with either. Names of "
    "runs tell them apart."
)
NOTE = (
    "A seed is a process of its own: what a process gets of memory and caches it keeps, so that "
    "one setting differs more between processes than between a process's utterances."
)


def _rows(labels: Mapping[str, str]) -> dict[str, Row]:
    """A row a point of the experiments' sweeps."""
    rows = {}
    for name, label in labels.items():
        made_by = read(f"drafters/{name}")
        for number, point in enumerate(_points(made_by)):
            swept = ", ".join(f"{SWEPT.get(key, '')}{_text(value)}" for key, value in point.items())
            where = {key: made_by.settings[key] for key in KEYS} | point
            key = "-".join([name, *(f"{value}" for value in point.values())])
            rows[key] = Row(f"{label}, {swept}", where, rule_above=not number)
    return rows


def _text(value: float | str) -> str:
    return CHOSEN[value] if isinstance(value, str) else f"{value:g}"


def _points(experiment: Experiment) -> list[dict[str, float | str]]:
    return [
        dict(zip(experiment.grid, values, strict=True))
        for values in product(*experiment.grid.values())
    ]


def _table(name: str, title: str, labels: Mapping[str, str]) -> TableDefinition:
    return TableDefinition(
        name=name,
        title=title,
        paper=NOT_PUBLISHED,
        rows=_rows(labels),
        panels=(
            Panel("Speed and words", columns("acceptance_length speedup tpot_speedup wer")),
            Panel("Passed at", columns("acceptance@1 acceptance@2 acceptance@3")),
        ),
        notes=(NOTE,),
        spread="sd",
    )


def words() -> TableDefinition:
    """What one of the fastest tolerances and the fastest groups cost."""
    made_by, groups = read("drafters/words"), read("drafters/words_pcg")
    target = {key: made_by.settings[key] for key in ALONE}
    ssd = {key: made_by.settings[key] for key in (*KEYS, *SET, "rule.beta")}
    pcg = {key: groups.settings[key] for key in (*KEYS, *SET, "rule.groups.mean_size")}
    rules = f"SSD, β {ssd['rule.beta']:g}", f"PCG, groups of {pcg['rule.groups.mean_size']}"
    return TableDefinition(
        name="words",
        title="Words of the fastest settings",
        paper=NOT_PUBLISHED,
        rows={
            "target": Row("Target alone", target | {"system": "target"}),
            "ssd": Row(f"recurrent layer, {rules[0]}, lookahead {ssd['lookahead']}", ssd),
            "pcg": Row(f"recurrent layer, {rules[1]}, lookahead {pcg['lookahead']}", pcg),
        },
        panels=(Panel("Words", (*columns("wer"), *against("target", "wer"))),),
        notes=(
            "Chosen by their clocks above (SSD's in an earlier run), not by words.",
            IN_8_BITS,
        ),
    )


def report(_scale: Scale) -> Report:
    """The report; it has one scale."""
    fine = _table("fine", "Drafters of the fine target", FINE)
    first, *_, last = fine.rows
    return Report(
        name="drafters",
        title="Drafters by the clock",
        introduction=(
            "What drafts decides how fast speculation is: each drafter at several lookaheads, next "
            "to the target alone in the same process, five processes with a seed each."
        ),
        tables=(fine, _table("small", "Drafters of the small target", SMALL), words()),
        figures=(),
        listening="",
        contrast=(first, last),
    )
