"""What nobody reads need not be heard: the papers' own tables and figures stay as they are."""

from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic_runs import make_pcg_runs, make_ssd_runs

from speculative_tts.commands.report import main
from speculative_tts.evaluation.metric import Metric
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.summary import Bootstrap, read_scores, summarise
from speculative_tts.records import write_jsonl
from speculative_tts.reporting.runs import unscored
from speculative_tts.reporting.shown import judges_shown
from speculative_tts.typed import read_json, write_json

JUDGES = {"wer", "similarity", "dnsmos"}


class Read(dict[str, int]):
    """Columns that a metric looks at."""

    def __missing__(self, key: str) -> int:
        self[key] = 1
        return 1


def columns_of(metric: Metric) -> set[str]:
    read = Read()
    metric.columns(ScoreRow("u", "", "", "s", columns=read))
    return set(read)


def forget(folder: Path, judges: set[str]) -> None:
    """A scored run as if these judges had not heard it."""
    gone = {c for m in METRICS.values() if m.judge in judges for c in columns_of(m)} | {
        "hypothesis"
    }
    rows = [
        ScoreRow(**vars(row) | {"columns": {c: v for c, v in row.columns.items() if c not in gone}})
        for row in read_scores(folder)
    ]
    summary = read_json(folder / "summary.json")
    summary["judges"] = {m: one for m, one in summary["judges"].items() if m not in judges}
    write_jsonl(folder / "scores.jsonl", (row.flat() for row in rows))
    write_json(folder / "summary.json", summary | summarise(rows, Bootstrap(draws=500)))


@pytest.mark.parametrize(
    ("paper", "make", "unheard"), [("ssd", make_ssd_runs, 10), ("pcg", make_pcg_runs, 0)]
)
def test_tables_and_figures_need_no_other_judge(
    paper: str, make: Callable[..., None], unheard: int, tmp_path: Path
) -> None:
    """Speed over lookahead was heard by three judges, and shows what none of them measures."""
    make(tmp_path / "runs", n=12)
    runs = [unscored(folder) for folder in sorted((tmp_path / "runs").iterdir())]
    shown = judges_shown(paper, runs)

    def reported(name: str) -> dict[str, bytes]:
        out = tmp_path / name
        assert (
            main([f"paper={paper}", f"runs={tmp_path / 'runs'}", f"out={out}", "page=false"]) == 0
        )
        files = [*(out / paper).glob("*.csv"), *(out / paper).glob("*.md")]
        assert len(files) > 8
        return {file.name: file.read_bytes() for file in files}

    before = reported("heard by all")
    for run in runs:
        forget(run.folder, JUDGES - shown.get(run.folder, JUDGES))
    assert reported("heard by some") == before
    assert [not judges for judges in shown.values()].count(True) == unheard
    assert sum(len(JUDGES - judges) for judges in shown.values()) >= 30
    forget(next(folder for folder, judges in shown.items() if judges == JUDGES), {"wer"})
    assert reported("a judge too few") != before


def test_a_run_that_no_paper_shows_is_not_named(tmp_path: Path) -> None:
    make_ssd_runs(tmp_path, n=1)
    other = next(tmp_path.glob("*b0.4-k6*"))
    config = read_json(other / "config.json")
    write_json(other / "config.json", config | {"lookahead": 5})
    (tmp_path / "no run").mkdir()
    runs = [unscored(folder) for folder in tmp_path.iterdir()]
    shown = judges_shown("ssd", runs)
    assert {run.folder for run in runs} - {*shown} == {other, tmp_path / "no run"}
