"""Drafters report: a row a point of what is swept, each target's in a table of its own."""

import re
from pathlib import Path
from typing import Any

import pytest
from csv_rows import by_key
from kept_runs import RESULTS
from synthetic_runs import FINE, config_of, groups_of, make_run, write_run

from speculative_tts.commands.report import main
from speculative_tts.reporting.checkpoints import LAYER
from speculative_tts.reporting.tables import plain

RECURRENT = {"drafter": {"name": "recurrent"}}


def test_each_point_is_that_of_its_target_drafter_and_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: Path = tmp_path / "runs"
    for seed in (0, 1, 2):
        for k in (1, 2, 3):
            parts: dict[str, Any] = {"lookahead": k, "seed": seed, "n": 12}
            make_run(runs, "speculative", **parts, **FINE)
            make_run(runs, "speculative", **parts, **FINE, **RECURRENT)
            make_run(runs, "speculative", **parts, **RECURRENT)
        config = config_of("speculative", "tolerance", 0.3, 5, seed, **FINE, **RECURRENT)
        write_run(runs / f"ssd-{seed}", config, 0.3, n=12)
        pcg = {"groups": groups_of(140.0), "n": 12, **FINE, **RECURRENT}
        make_run(runs, "speculative", rule="group", lookahead=6, seed=seed, **pcg)
    options = ["paper=drafters", "page=false", "strict=true"]
    assert main([f"runs={runs}", f"out={tmp_path}", *options]) == 3
    assert "recurrent layer, exact, lookahead 4 (and 7 more)" in capsys.readouterr().err
    fine, small = (by_key(tmp_path / "drafters" / f"{name}.csv") for name in ("fine", "small"))
    assert {"small-1", "small-2", "small-3"} == set(small)
    assert {"recurrent-1", "recurrent-3", "second-1", "second-3", "ssd-0.3-5"} <= set(fine)
    assert all(
        float(row["speedup_sd"]) > 0 for row in (*fine.values(), *small.values()) if row["speedup"]
    )
    text = (tmp_path / "drafters" / "fine.md").read_text()
    assert "mean ± standard deviation over seeds" in text
    assert "A seed is a process of its own" in text
    assert plain(LAYER) in text
    assert plain(LAYER) not in (tmp_path / "drafters" / "small.md").read_text()  # exact alone
    assert "acceptance rate at 1 | acceptance rate at 2 | acceptance rate at 3 |" in text


def test_shipped_tables_say_in_which_format_a_layer_drafts() -> None:
    """SSD and PCG by a recurrent layer stood side by side in 19 tables; one told their format."""
    beside = re.compile(r"speculative-(tolerance|group)-\S*-recurrent-s\d")
    tables = {
        page: text
        for page in RESULTS.rglob("*.md")
        if {*beside.findall((text := page.read_text(encoding="utf-8")).partition("Made by:")[2])}
        == {"tolerance", "group"}
    }
    assert len(tables) > 15
    assert [str(page) for page, text in tables.items() if f"- {plain(LAYER)}" not in text] == []
