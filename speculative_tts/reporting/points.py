"""Speed and word errors of every system of a report, and the two that answer a visitor first."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from speculative_tts.reporting.definitions import Report, TableDefinition

LOSS = 1.0  # points below which a faster setting counts as no worse (a non-inferiority test)
FAR = 10.0  # points of word errors from which a system has failed, and frames no plot
SPEEDS = "Speeds, "  # begins a line on the origin of speeds that are of runs of their own
VOCABULARY = dict.fromkeys(("tiny", "tiny_fine", "tiny_valle"), "35 words")  # of targets that ship
TARGET = re.compile(r"`target=(\w+)`")
Point = dict[str, Any]


def points(
    report: Report, tables: Mapping[str, str], origins: Mapping[str, Sequence[str]]
) -> list[Point]:
    """Return the systems of a report's tables (their CSV texts), by label.

    Words and speed of one system may stand in two tables. `drawn` are those of the table that the
    page plots; `lossless` those whose rule keeps the target's distribution.
    """
    by_label: dict[str, Point] = {}
    drawn = report.plotted if report.plotted in tables else report.listening
    for table, key, figures in _rows(report, tables, origins):
        plotted, system = table.name == drawn, table.rows[key]
        point = by_label.setdefault(
            system.label, {"key": key, "label": system.label, "drawn": False}
        )
        point["drawn"] |= plotted
        point["lossless"] = system.where.get("rule.name") == "exact"
        point |= _better(point, figures, plotted)
    return [point | {"failed": _failed(point)} for point in by_label.values() if "wer" in point]


def timings(
    report: Report, tables: Mapping[str, str], origins: Mapping[str, Sequence[str]]
) -> dict[str, Point]:
    """Return the speeds that a report measured of other reports' rows, by `report/table/key`."""
    return {
        place: figures["speedup"]
        for table, key, figures in _rows(report, tables, origins)
        for place in table.rows[key].times
        if "speedup" in figures
    }


def retimed(point: Point, timed: Mapping[str, Point]) -> Point:
    """Return a point with the speed of another report, if that is of more processes than its own.

    One that another report has retimed before follows it.
    """
    other = timed.get(point.get("speedup_of", ""))
    if other is None:
        return point
    own = point["speedup_of"].startswith(f"{point['speedup_table']}/")
    if other["processes"] < point["processes"] + own:
        return point
    return point | other | {"speedup_of": point["speedup_of"]}


def _rows(
    report: Report, tables: Mapping[str, str], origins: Mapping[str, Sequence[str]]
) -> Iterator[tuple[TableDefinition, str, dict[str, Point]]]:
    """Yield the rows of tables that a report defines: table, key and figures."""
    for table in report.tables:
        origin = origins.get(table.name, ())
        for row in csv.DictReader(io.StringIO(tables.get(table.name, ""))):
            if row["key"] in table.rows:
                yield table, row["key"], _figures(f"{report.name}/{table.name}", table, row, origin)


def _better(point: Point, figures: Mapping[str, Point], plotted: bool) -> Point:
    """Return the figures of a table that are of more utterances than those at hand, or plotted."""
    more = (
        one
        for name, one in figures.items()
        if plotted or one[f"{name}_n"] > point.get(f"{name}_n", 0) or name not in point
    )
    return {key: value for one in more for key, value in one.items()}


def _figures(
    name: str, table: TableDefinition, row: Mapping[str, str], origin: Sequence[str]
) -> dict[str, Point]:
    """Return wer, speedup and difference of a row: [value, low, high], utterances and table."""
    alone = (key for key, one in table.rows.items() if one.where.get("system") == "target")
    to_target = (column for key in alone if row.get(column := f"wer_minus_{key}"))
    columns = {"wer": "wer", "speedup": "speedup", "difference": next(to_target, "")}
    figures: dict[str, Point] = {}
    for figure, column in columns.items():
        value, *ends = (_number(row.get(f"{column}{end}")) for end in ("", "_low", "_high"))
        if value is not None:
            count = int(_number(row.get(f"{column}_n")) or 0)
            figures[figure] = {figure: [value, *ends], f"{figure}_table": name}
            figures[figure] |= {f"{figure}_n": count}
    if "speedup" in figures:
        seeds = _line(origin, "Seeds").split(", ") if row.get("speedup_sd") else [""]
        processes = int(_number(row.get("speedup_processes")) or len(seeds))
        machine = _line(origin, f"{SPEEDS}hardware") or _line(origin, "Hardware")
        figures["speedup"] |= {"machine": machine, "processes": processes}
        figures["speedup"]["speedup_of"] = f"{name}/{row['key']}"
        figures["speedup"]["target"] = _target(origin)
    return figures


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _target(origin: Sequence[str]) -> str:
    """Return the name of the target that a table is of, and what it knows; empty if of several."""
    names = set(TARGET.findall(_line(origin, "Models")))
    if len(names) != 1:
        return ""
    (name,) = names
    return f"{name} ({VOCABULARY[name]})" if name in VOCABULARY else name


def _line(origin: Sequence[str], name: str) -> str:
    return next((one.removeprefix(f"{name}: ") for one in origin if one.startswith(name)), "")


def answers(systems: Iterable[Point]) -> dict[str, Any]:
    """Return the fastest lossless system and the fastest whose loss is certainly below `LOSS`.

    The fastest is the one with the highest lower end of its interval; where some were timed in
    several processes, those of one process stand back: they decide nothing.
    """
    timed = [one for one in systems if one.get("speedup", [None] * 3)[1] is not None]
    within = [one for one in timed if one.get("lossless") or _upper(one) < LOSS]
    lossless = [one for one in within if one.get("lossless")]
    return {"margin": LOSS, "lossless": _fastest(lossless), "within": _fastest(within)}


def _upper(point: Point) -> float:
    high = point.get("difference", [None] * 3)[2]
    return float("inf") if high is None else float(high)


def _fastest(systems: Sequence[Point]) -> Point | None:
    several = [one for one in systems if one.get("processes", 1) > 1]
    return max(several or systems, key=lambda one: float(one["speedup"][1]), default=None)


def _failed(point: Point) -> bool:
    """Tell if a system loses so many words that its place in a plot would flatten the others."""
    low = point.get("difference", [None] * 3)[1]
    return bool(point["key"] == "draft" or (low is not None and low > FAR))
