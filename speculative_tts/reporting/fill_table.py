"""A table's definition and the runs at hand become a finished table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from speculative_tts.reporting.captions import around, caption, judge_name
from speculative_tts.reporting.checkpoints import draft_notes, heads_notes
from speculative_tts.reporting.definitions import TESTS, Column, Panel, TableDefinition
from speculative_tts.reporting.quantities import quantity
from speculative_tts.reporting.results import NOTHING, Measure, Result, measured
from speculative_tts.reporting.selection import Chosen, compare, cost_notes
from speculative_tts.reporting.tables import Block, Cell, Heading, Line, Table

Differences = Mapping[tuple[str, str, str], Measure]  # by (baseline, system, metric), of a panel


def fill_table(definition: TableDefinition, chosen: Chosen) -> Table:
    """The table from the results of its rows."""
    results = list(chosen.results.values())
    panels = [_of_what_was_measured(panel, results) for panel in definition.panels]
    definition = replace(definition, panels=panels)
    blocks = [
        _block(definition, panel, chosen, _differences(definition, panel, chosen))
        for panel in panels
    ]
    columns = [column for panel in definition.panels for column in panel.columns]
    notes = [
        *definition.notes,
        *draft_notes(chosen.runs, definition.paper.draft),
        *heads_notes(chosen.runs, definition.paper.heads),
        *chosen.selection.notes,
        *cost_notes({column.quantity for column in columns}, chosen),
        *_paper_notes(definition),
    ]
    text = caption(columns, results, definition.spread)
    return Table(**around(definition, chosen, text, notes), blocks=blocks)


def _of_what_was_measured(panel: Panel, results: Sequence[Result]) -> Panel:
    columns = [replace(one, quantity=measured(one.quantity, results)) for one in panel.columns]
    return replace(panel, columns=columns)


def _differences(definition: TableDefinition, panel: Panel, chosen: Chosen) -> Differences:
    """One call a baseline, so that p is corrected for all systems of the panel."""
    metrics: dict[str, list[str]] = {}
    for column in panel.columns:
        if column.against is not None:
            names = metrics.setdefault(column.against, [])
            names += [column.quantity] if column.quantity not in names else []
    keys = definition.rows if panel.rows is None else panel.rows
    systems = [key for key in keys if definition.rows[key].compared]
    return {
        (baseline, key, metric): measure
        for baseline, names in metrics.items()
        for (key, metric), measure in compare(chosen, baseline, systems, names).items()
    }


def _block(
    definition: TableDefinition, panel: Panel, chosen: Chosen, differences: Differences
) -> Block:
    keys = list(definition.rows) if panel.rows is None else panel.rows
    headings = [h for column in panel.columns for h in _headings(definition, column, chosen)]
    lines = [
        Line(
            key,
            definition.rows[key].label,
            [
                cell
                for column in panel.columns
                for cell in _cells(definition, key, column, chosen, differences)
            ],
            definition.rows[key].rule_above and key != keys[0],
        )
        for key in keys
    ]
    return Block(panel.title, headings, lines)


def _headings(definition: TableDefinition, column: Column, chosen: Chosen) -> Iterable[Heading]:
    """Of our figure, and of the paper's beside it."""
    ours = _heading(definition, column, chosen)
    yield ours
    if column.paper is not None:
        called, measured = definition.paper.called, definition.paper.measured.get(column.paper)
        sub = f"{called} ({measured})" if measured else called
        yield Heading(ours.group, sub, f"{called}_{column.paper}")


def _heading(definition: TableDefinition, column: Column, chosen: Chosen) -> Heading:
    shown = quantity(column.quantity)
    if column.against is not None:
        baseline = _inside(definition.rows[column.against].label)
        group = f"Δ {shown.heading.removesuffix(' %')} to {baseline}"
        name = f"{column.quantity}_minus_{column.against}"
        if column.test == "bootstrap":
            return Heading(group, f"{shown.unit} [95 % CI] p".strip(), name)
        return Heading(group, TESTS[column.test], f"{name}_p_{column.test}")
    if column.over is not None:
        group = f"{shown.heading} over {_inside(definition.rows[column.over].label)}"
        return Heading(group, "here", f"{column.quantity}_over_{column.over}")
    judge = judge_name(column.quantity, chosen.results.values())
    return Heading(shown.heading, judge or ("here" if column.paper else ""), column.quantity)


def _inside(label: str) -> str:
    """A label within a sentence: `target alone`, but `SSD (β = 0.3)`."""
    return f"{label[:1].lower()}{label[1:]}" if label[1:2].islower() else label


def _cells(
    definition: TableDefinition,
    key: str,
    column: Column,
    chosen: Chosen,
    differences: Differences,
) -> Iterable[Cell]:
    """Our figure, and the paper's beside it."""
    yield _cell(definition, key, column, chosen, differences)
    if column.paper is not None:
        row = definition.rows[key].paper or key
        yield Cell(text=definition.paper.text(row, column.paper) or "-")


def _cell(
    definition: TableDefinition,
    key: str,
    column: Column,
    chosen: Chosen,
    differences: Differences,
) -> Cell:
    shown = quantity(column.quantity)
    if column.against is not None:
        measure = differences.get((column.against, key, column.quantity), NOTHING)
        if column.test == "bootstrap":
            return Cell(measure.scaled(shown.scale), shown.digits, signed=True)
        return Cell(Measure(measure.tests.get(column.test)), 3)
    measure = _measure(definition, key, column.quantity, chosen)
    if column.over is not None:
        other = _measure(definition, column.over, column.quantity, chosen)
        return Cell(_over(measure, other), 2)
    return Cell(measure.scaled(shown.scale), shown.digits, spread=definition.spread)


def _over(own: Measure, other: Measure) -> Measure:
    return Measure(own.value / other.value) if own.value and other.value else NOTHING


def _measure(definition: TableDefinition, key: str, name: str, chosen: Chosen) -> Measure:
    if key not in chosen.results:
        return NOTHING
    fixed = definition.rows[key].fixed
    return Measure(fixed[name]) if name in fixed else chosen.results[key].measure(name)


def _paper_notes(definition: TableDefinition) -> Sequence[str]:
    paper = definition.paper
    shown = {column.paper for panel in definition.panels for column in panel.columns}
    derived = [f"{name} is {how}" for name, how in paper.derived.items() if name in shown]
    text = f"{paper.called.capitalize()}: {paper.source}. {paper.settings}."
    return [text, *(f"Not printed in the {paper.called}: {line}." for line in derived)]
