"""A metric is one declaration: scores, comparisons and tables follow from it."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import loud_judge
import pytest
from loud_judge import LoudJudge
from scored_runs import record

from speculative_tts.commands import eval as command
from speculative_tts.evaluation import compare, scoring, wer
from speculative_tts.evaluation.metric import Better, Metric, each
from speculative_tts.evaluation.registry import JUDGES, METRICS
from speculative_tts.evaluation.rows import ScoreRow, read_row
from speculative_tts.records import Arrivals, Counts, DecodeRecord, Split
from speculative_tts.reporting.captions import caption
from speculative_tts.reporting.definitions import Column, Panel, Row, TableDefinition
from speculative_tts.reporting.fill_table import fill_table
from speculative_tts.reporting.needs import choose
from speculative_tts.reporting.runs import find_runs
from speculative_tts.reporting.tables import markdown
from speculative_tts.schema.evaluate import EvalConfig

LOUDNESS = Metric(
    "loudness %",
    1,
    100.0,
    unit="points",
    better=Better.higher,
    caption="Loudness is the largest step of the wave.",
    judge="loud",
    judges={"loud": "ears"},
    columns=each("dnsmos"),
    listed=True,
    compared=True,
)


class Asked(ScoreRow):
    """A row that notes the columns that it is asked for."""

    def __getitem__(self, column: str) -> None:
        ASKED.add(column)


ASKED: set[str] = set()


def test_a_new_metric_is_printed_compared_and_tabulated(
    make_run: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(METRICS, "loudness", LOUDNESS)
    monkeypatch.setattr(scoring, "JUDGES", JUDGES | {"loud": lambda *_: LoudJudge()})
    base = make_run("target-00000000", [record(f"u{i}") for i in range(10)], system="target")
    make_run("ssd-11111111", [record(f"u{i}") for i in range(10)])
    config = EvalConfig(
        runs=str(base.parent), metrics=["loud"], workers=1, draws=50, baseline=str(base)
    )
    assert command.run(config) == 0
    loud_judge.HEARD.clear()
    printed = capsys.readouterr().out
    assert "loudness %" in printed
    assert "\nloudness " in printed.partition("paired over utterances")[2]
    rows = {name: Row(name, {"system": name}) for name in ("target", "speculative")}
    columns = (Column("loudness"), Column("loudness", against="target"))
    definition = TableDefinition("t", "T", rows, (Panel("All", columns),))
    chosen = choose(find_runs(base.parent), definition.needs(), None)
    text = markdown(fill_table(definition, chosen))
    assert "| loudness %, ears | Δ loudness to target, points [95 % CI] p |" in text
    assert "Loudness is the largest step of the wave." in text
    assert "Better: higher loudness %." in text


def test_what_a_metric_sums_is_measured_by_somebody() -> None:
    """A misspelt column would be empty in all tables and nobody told."""
    blank = Asked("", "", 0, "", "")
    for name, metric in METRICS.items():
        metric.columns(blank)
        assert metric.judge is None or metric.judge in JUDGES, name
    judged = wer.compare("one two", "one") | dict.fromkeys(
        ["similarity", "similarity_floor", "dnsmos", "utmos", "reference_seconds"]
    )
    counted = {entry.name for kind in (DecodeRecord, Split) for entry in fields(kind)}
    counted |= set(Counts().columns()) | set(Arrivals([0.1], [0.1]).heard())
    assert set(judged) | counted >= ASKED >= {"words", "dnsmos", "lm_seconds", "tv", "swapped"}


def test_metrics_have_what_readers_need() -> None:
    for name, metric in METRICS.items():
        assert metric.heading, name
        assert metric.better or metric.caption or not metric.compared, name
    assert [METRICS[name].better for name in ("wer", "utmos", "speedup")] == [
        Better.lower,
        Better.higher,
        Better.higher,
    ]
    assert {"wer", "dnsmos", "utmos", "speedup"} <= {*compare.compared_metrics()}


def test_rows_are_read_as_they_were_written() -> None:
    columns = {"words": 2, "tv": None}
    row = ScoreRow("a", "t", "x.wav", "b", seed=3, flags=["empty_text"], columns=columns)
    flat = row.flat()
    assert (flat["id"], flat["words"], flat["tv"]) == ("a", 2, None)
    assert read_row(flat) == row
    assert row["words"] == 2
    assert row["nothing"] is None


def test_captions_of_no_runs_are_empty_of_figures() -> None:
    assert "utterances;" not in " ".join(caption([Column("wer")], [], "interval"))
    assert LoudJudge().files(ScoreRow("a", "", "a.wav")) == ["a.wav"]
