"""A table's definition and the runs at hand become a finished table."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from speculative_tts.evaluation.statistics import NOTHING, Measure
from speculative_tts.reporting.captions import around, caption, judge_name
from speculative_tts.reporting.checkpoints import draft_notes, heads_notes, layer_notes
from speculative_tts.reporting.definitions import TESTS, Column, Panel, TableDefinition
from speculative_tts.reporting.needs import Chosen
from speculative_tts.reporting.quantities import quantity
from speculative_tts.reporting.runs import measured
from speculative_tts.reporting.selection import compare
from speculative_tts.reporting.tables import MINUS, SYSTEM, Block, Cell, Heading, Table


def fill_table(definition: TableDefinition, chosen: Chosen) -> Table:
    """Return the table made of the results of its rows."""
    results = list(chosen.results.values())
    fillings = [_Filling(definition, panel, chosen) for panel in definition.panels]
    columns = [column for one in fillings for column in one.columns]
    notes = [
        *definition.notes,
        *draft_notes(chosen.runs, definition.paper.draft),
        *heads_notes(chosen.runs, definition.paper.heads),
        *layer_notes(chosen.runs),
        *chosen.notes,
        *_paper_notes(definition),
    ]
    text = caption(columns, results, definition.spread)
    blocks = {one.panel.title: one.block() for one in fillings}
    ruled = [key for key, row in definition.rows.items() if row.rule_above]
    return Table(**around(definition, chosen, text, notes), blocks=blocks, ruled=ruled)


class _Filling:
    """A panel of a table being filled: rows that the table has, columns that can be made of them.

    Of `a|b` a column shows what was measured.
    """

    def __init__(self, definition: TableDefinition, panel: Panel, chosen: Chosen) -> None:
        self.definition, self.panel, self.chosen = definition, panel, chosen
        rows = definition.rows
        self.keys = [key for key in (panel.rows or rows) if key in rows]
        self.columns = [
            replace(one, quantity=measured(one.quantity, chosen.results.values()))
            for one in panel.columns
            if {one.against, one.over} <= {None, *rows}
        ]
        self.differences = self._differences()

    def _differences(self) -> dict[tuple[str, str, str], Measure]:
        """Compare by (baseline, system, metric), once a baseline: p is corrected for all."""
        metrics: dict[str, list[str]] = {}
        for column in self.columns:
            if column.against is not None:
                names = metrics.setdefault(column.against, [])
                names += [column.quantity] if column.quantity not in names else []
        return {
            (baseline, key, metric): measure
            for baseline, names in metrics.items()
            for (key, metric), measure in compare(
                self.chosen, baseline, self._compared(baseline), names
            ).items()
        }

    def _compared(self, baseline: str) -> list[str]:
        """Return the rows to compare with this one: none whose search for its figure missed."""
        rows, unmet = self.definition.rows, self.chosen.unmet

        def missed(key: str, other: str) -> bool:
            nearest = rows[key].nearest
            return key in unmet and nearest is not None and nearest.key == other

        return [
            key
            for key in self.keys
            if rows[key].compared and not missed(key, baseline) and not missed(baseline, key)
        ]

    def block(self) -> Block:
        """Return the panel's lines by key."""
        labels = {
            key: self.definition.rows[key].label + self._unmet(key) + self._starved(key)
            for key in self.keys
        }
        return {
            key: {SYSTEM: Cell(label)}
            | {at: cell for column in self.columns for at, cell in self._figures(key, column)}
            for key, label in labels.items()
        }

    def _unmet(self, key: str) -> str:
        """Say that a row's figure is further from the wanted one than a comparison allows."""
        gap = self.chosen.unmet.get(key)
        return f" ({100 * gap:+.1f} %, not compared)".replace("-", MINUS) if gap is not None else ""

    def _starved(self, key: str) -> str:
        """Say that a row was timed while its machine's memory was short, if it shows a time."""
        if not any(quantity(column.quantity).timed for column in self.columns):
            return ""
        found = self.chosen.results[key].starved if key in self.chosen.results else ""
        return f" ({found})" if found else ""

    def _figures(self, key: str, column: Column) -> Iterator[tuple[Heading, Cell]]:
        """Yield our figure under its heading, and the paper's beside it."""
        ours, paper = self._heading(column), self.definition.paper
        yield ours, self._cell(key, column)
        if column.paper is not None:
            how = paper.measured.get(column.paper)
            sub = f"{paper.called} ({how})" if how else paper.called
            printed = paper.text(self.definition.rows[key].paper or key, column.paper)
            name = f"{paper.called}_{column.paper}"
            yield Heading(ours.group, sub, name), Cell(printed or "-")

    def _heading(self, column: Column) -> Heading:
        shown, rows = quantity(column.quantity), self.definition.rows
        if column.against is not None:
            baseline = _inside(rows[column.against].label)
            group = f"Δ {shown.heading.removesuffix(' %')} to {baseline}"
            name = f"{column.quantity}_minus_{column.against}"
            if column.test == "bootstrap":
                return Heading(group, f"{shown.unit} [95 % CI] p".strip(), name)
            return Heading(group, TESTS[column.test], f"{name}_p_{column.test}")
        if column.over is not None:
            group = f"{shown.heading} over {_inside(rows[column.over].label)}"
            return Heading(group, "here", f"{column.quantity}_over_{column.over}")
        judge = judge_name(column.quantity, self.chosen.results.values())
        return Heading(shown.heading, judge or ("here" if column.paper else ""), column.quantity)

    def _cell(self, key: str, column: Column) -> Cell:
        shown = quantity(column.quantity)
        if column.against is not None:
            measure = self.differences.get((column.against, key, column.quantity), NOTHING)
            if column.test == "bootstrap":
                return Cell.of(measure.scaled(shown.scale), shown.digits, signed=True)
            return Cell.of(Measure(measure.tests.get(column.test)), 3)
        own = self._measure(key, column.quantity)
        if column.over is None:
            return Cell.of(own.scaled(shown.scale), shown.digits, spread=self.definition.spread)
        other = self._measure(column.over, column.quantity)
        return Cell.of(Measure(1.0) if key == column.over and own.value else own.over(other))

    def _measure(self, key: str, name: str) -> Measure:
        if key not in self.chosen.results:
            return NOTHING
        fixed = self.definition.rows[key].fixed
        return Measure(fixed[name]) if name in fixed else self.chosen.results[key].measure(name)


def _inside(label: str) -> str:
    """Write a label within a sentence: `target alone`, but `SSD (β = 0.3)`."""
    return f"{label[:1].lower()}{label[1:]}" if label[1:2].islower() else label


def _paper_notes(definition: TableDefinition) -> Sequence[str]:
    paper = definition.paper
    if not paper.source:
        return ()
    shown = {column.paper for panel in definition.panels for column in panel.columns}
    derived = [f"{name} is {how}" for name, how in paper.derived.items() if name in shown]
    text = f"{paper.called.capitalize()}: {paper.source}. {paper.settings}."
    return [text, *(f"Not printed in the {paper.called}: {line}." for line in derived)]
