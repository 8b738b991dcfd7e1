"""From run folders to files, through the command."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from csv_rows import by_key
from shipped import read_csv
from synthetic_runs import make_run

from speculative_tts.commands.report import main
from speculative_tts.evaluation.compare import compared_metrics
from speculative_tts.files import held
from speculative_tts.reporting.examples import strip
from speculative_tts.reporting.experiments import PAPERS_OWN, TINY, read
from speculative_tts.reporting.page import SECTION, page
from speculative_tts.reporting.shown import REPORTS

REPORT = REPORTS["ssd"](TINY)
TABLES = {
    f"{table.name}.{ending}"
    for table in REPORT.tables
    for ending in ("md", "csv", "tex")
    if not table.heard  # nobody has listened
}
FIGURES = {
    f"{figure.name}.{ending}"
    for figure in REPORT.figures
    for ending in ("png", "svg", "pdf", "csv", "md")
}


def test_every_file_is_there(ssd_report: Path) -> None:
    names = {path.name for path in (ssd_report / "ssd").iterdir()}
    assert names == TABLES | FIGURES | {"runs.json"}
    assert (ssd_report / "index.html").is_file()


def test_table1_has_ours_beside_the_paper(ssd_report: Path, ssd_runs: Path) -> None:
    table = by_key(ssd_report / "ssd" / "table1.csv")
    assert list(table) == ["draft", "target", "exact", "ssd", "codec", "reference"]
    assert table["ssd"]["paper_wer"] == "5.70"
    assert table["ssd"]["paper_speedup"] == "1.40"
    assert table["exact"]["paper_wer"] == ""
    assert table["target"]["speedup"] == "1"
    folder = next(ssd_runs.glob("speculative-tolerance-b0.4-k3-*"))
    summary = json.loads((folder / "summary.json").read_text())
    assert float(table["ssd"]["wer"]) == pytest.approx(
        100 * summary["metrics"]["wer"]["value"], 1e-4
    )
    assert float(table["ssd"]["wer_minus_target"]) == pytest.approx(
        float(table["ssd"]["wer"]) - float(table["target"]["wer"]), abs=1e-3
    )
    assert 0 < float(table["ssd"]["wer_minus_target_p"]) <= 1
    assert table["target"]["wer_minus_target"] == ""


def test_captions_define_what_is_shown(ssd_report: Path) -> None:
    text = (ssd_report / "ssd" / "table1.md").read_text()
    assert "WER %, pocketsphinx word grammar" in text
    assert re.search(r"24 utterances \(\d+ words\)", text)
    assert "Times and speedups of one process have an interval over its utterances alone" in text
    assert "none (and no p) below 10 of them" in text
    assert "tokens emitted by rounds over rounds, residual and bonus tokens included" in text
    assert "without bonus it is accepted drafts over rounds" in text
    assert "autoregressively in the same engine and process" in text
    assert "- Commands: `sst-decode experiment=ssd/table1`" in text
    assert "- Scored by: `sst-eval runs=runs`" in text
    assert "- Models: `target=tiny`, `draft=tiny`" in text
    assert "pocketsphinx-words 5.1.1 (padding=0.25), ge2e 0.1.4, dnsmos" in text
    assert "dnsmos-p808 0.0.1.1 (at most 40 utterances of a run)" in text
    assert "commit 012345678" in text
    assert "Not made alike" not in text
    assert "Some CPU @ 2.00GHz / 2 cores / 1 thread" in text
    assert "/somewhere" not in text


def test_table3_says_what_is_odd_in_the_paper(ssd_report: Path) -> None:
    text = (ssd_report / "ssd" / "table3.md").read_text()
    assert "The paper prints WER 6.34" in text
    assert "probably a misprint" in text
    assert [row["paper_lm_rtf"] for row in by_key(ssd_report / "ssd" / "table3.csv").values()] == [
        "0.504",
        "0.509",
        "0.444",
        "0.408",
        "0.386",
        "0.360",
    ]


def test_times_of_two_runs_are_never_tested_against_each_other() -> None:
    """They were taken at two times on a shared machine; the speedup has its baseline beside it."""
    made = [make(scale) for make in REPORTS.values() for scale in (TINY, PAPERS_OWN)]
    columns = [c for r in made for t in r.tables for p in t.panels for c in p.columns]
    tested = {column.quantity for column in columns if column.against is not None}
    assert "speedup" in tested
    assert not tested & {"lm_rtf", "time_per_token_ms", "tokens_per_second"}
    assert not {*compared_metrics()} & {"lm_rtf", "time_per_token_ms", "tokens_per_second"}


def test_tables_and_figures_have_files_of_their_own() -> None:
    """A figure once overwrote the table of its name."""
    for made in (make(scale) for make in REPORTS.values() for scale in (TINY, PAPERS_OWN)):
        names = [one.name for one in (*made.tables, *made.figures, *made.speakers, *made.claims)]
        assert len({*names}) == len(names), made.name


def test_titles_of_tables_and_figures_name_the_target(ssd_report: Path) -> None:
    """Pages of one title differ by it; those of figures had none."""
    titles = [(ssd_report / "ssd" / f"{one}.md").read_text() for one in ("table1", "figure3")]
    table, figure = (text.partition("\n")[0] for text in titles)
    assert table.endswith(")")
    assert figure.rpartition(" (")[2] == table.rpartition(" (")[2]


def test_figure3_has_every_lookahead(ssd_report: Path) -> None:
    points = read_csv(ssd_report / "ssd" / "figure3.csv")
    for label in ("SSD, β = 0.4", "exact"):
        xs = [p["x"] for p in points if p["series"] == label and p["plot"].startswith("LM-RTF")]
        assert xs == [str(k) for k in read("ssd/figure3").values("lookahead")]
    assert any(p["kind"] == "published" and p["y"] == "1.4" for p in points)


def test_files_are_the_same_when_made_again(
    ssd_report: Path, ssd_runs: Path, tmp_path: Path
) -> None:
    assert main([f"runs={ssd_runs}", f"out={tmp_path}"]) == 0
    for path in [*(ssd_report / "ssd").iterdir(), ssd_report / "index.html"]:
        again = tmp_path / path.relative_to(ssd_report)
        assert again.read_bytes() == path.read_bytes(), path.name


def section(page: Path, name: str = "ssd") -> dict[str, Any]:
    """What a page holds of a paper."""
    found = dict(SECTION.findall(page.read_text()))
    data: dict[str, Any] = json.loads(found[name])
    return data


def test_page_needs_no_other_file(ssd_report: Path) -> None:
    page = (ssd_report / "index.html").read_text()
    data = section(ssd_report / "index.html")
    audio = [clip["audio"] for one in data["utterances"] if one["why"] for clip in one["clips"]]
    assert len(audio) >= 3 * len(data["systems"]) == 18
    assert all(uri.startswith("data:audio/mpeg;base64,") for uri in audio)
    assert len(data["figures"]) == len(REPORT.figures)
    assert "http" not in re.sub(r'"data:[^"]*"|http://www.w3.org/2000/svg', "", page)
    assert len(re.sub(r'"data:[^"]*"', "", page)) < 3e6
    assert [point["key"] for point in data["points"]][:4] == ["draft", "target", "exact", "ssd"]
    named = [f"{one['name']}.{ending}" for one in data["tables"] for ending in ("md", "csv", "tex")]
    assert all((ssd_report / "ssd" / name).is_file() for name in named)


def test_a_page_keeps_the_other_papers_sections(tmp_path: Path) -> None:
    """`make pcg` and `make mtp` once left no page, as each would have been of one paper."""
    make_run(tmp_path / "runs", "target", n=10)
    arguments = [f"runs={tmp_path / 'runs'}", f"out={tmp_path}"]
    assert main([*arguments, "paper=tiny"]) == 0
    before = section(tmp_path / "index.html", "tiny")
    assert main(arguments) == 0
    assert section(tmp_path / "index.html", "tiny") == before
    assert section(tmp_path / "index.html")["points"]
    assert [*dict(SECTION.findall((tmp_path / "index.html").read_text()))] == ["ssd", "tiny"]


def test_tokens_of_an_utterance_tell_what_came_of_each_round() -> None:
    """First token; all three accepted and a bonus; one, and a residual in place of the second."""
    assert strip({"split": {"per_round": [[3, 3], [3, 1], [3, 0]]}}) == "faaabar1r2"
    ended = {"split": {"per_round": [[3, 1], [3, 3]]}, "tokens": 6}
    assert strip(ended) == "far1aaa"  # its last draft was a stop id: nothing follows
    assert strip(ended | {"tokens": 7}) == "far1aaab"
    assert strip({"unverified": 3}) == "uuu"
    assert not strip({})


def test_audio_of_other_systems_reaches_the_report(tmp_path: Path) -> None:
    """What sst-eval scored by a list had no place in any table."""
    make_run(tmp_path / "runs", "target", n=24)
    theirs = make_run(tmp_path / "runs", "draft", n=9).rename(tmp_path / "runs" / "theirs")
    (theirs / "config.json").unlink()
    summary = json.loads((theirs / "summary.json").read_text())
    summary["run"] = {"system": "external", "list": "theirs.jsonl"}
    (theirs / "summary.json").write_text(json.dumps(summary))
    assert main([f"runs={tmp_path / 'runs'}", f"out={tmp_path}"]) == 0
    row = by_key(tmp_path / "others" / "others.csv")["theirs"]
    assert float(row["wer"]) == pytest.approx(100 * summary["metrics"]["wer"]["value"], 1e-4)
    assert "Built on 9 utterances, fewer than 10" in (tmp_path / "others" / "others.md").read_text()
    heard = section(tmp_path / "index.html")
    assert heard["systems"] == ["Target alone", "theirs"]
    assert section(tmp_path / "index.html", "others")["systems"] == ["theirs"]
    shutil.copytree(theirs, tmp_path / "runs" / "deaf")
    summary["judges"]["wer"]["id"] = "another"
    (tmp_path / "runs" / "deaf" / "summary.json").write_text(json.dumps(summary))
    assert "same judge" not in (tmp_path / "others" / "others.md").read_text()
    assert main([f"runs={tmp_path / 'runs'}", f"out={tmp_path}"]) == 0
    page = (tmp_path / "others" / "others.md").read_text()
    assert "WER %: its systems were not heard by the same judge." in page


def test_similarity_stands_beside_its_floor_and_cut_offs_are_shown(ssd_report: Path) -> None:
    table = by_key(ssd_report / "ssd" / "table1.csv")
    assert {row["similarity_floor"] for row in table.values()} == {"0.6"}
    assert table["target"]["stopped_at_max"] == "0"
    assert table["codec"]["length_ratio"] == "1"
    text = (ssd_report / "ssd" / "table1.md").read_text()
    assert "SIM, GE2E | SIM, paper (SS, ERes2Net) | SIM to other speakers, GE2E |" in text
    assert "what somebody else's voice gets" in text


def test_tiny_system_stands_beside_its_goals(ssd_runs: Path, tmp_path: Path) -> None:
    assert main([f"runs={ssd_runs}", f"out={tmp_path}", "paper=tiny"]) == 0
    table = by_key(tmp_path / "tiny" / "tiny_system.csv")
    assert {key: row["goal_wer"] for key, row in table.items()} == {
        "target": "≤ 8 (aim 5)",
        "codec": "≤ 4",
        "reference": "≤ 2",
    }
    assert table["target"]["goal_stopped_at_max"] == "≤ 1"
    assert float(table["target"]["similarity"]) > float(table["target"]["similarity_floor"])
    text = (tmp_path / "tiny" / "tiny_system.md").read_text()
    assert "WER %, goal" in text
    assert "Paper:" not in text


def test_several_seeds_are_pooled(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for seed in (0, 1):
        make_run(runs, "target", seed=seed, n=6)
    assert main([f"runs={runs}", f"out={tmp_path}", "page=false"]) == 0
    row = by_key(tmp_path / "ssd" / "table1.csv")["target"]
    assert row["wer_n"] == "6"
    assert float(row["wer_sd"]) >= 0
    assert "seeds 0, 1; temperature" in (tmp_path / "ssd" / "table1.md").read_text()
    assert not (tmp_path / "index.html").exists()


def test_runs_of_other_code_or_hardware_are_told(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "target", n=4)
    other = make_run(tmp_path / "runs", "draft", n=4) / "provenance.json"
    made = json.loads(other.read_text())
    made["code"] |= {"commit": "fedcba9876543210", "dirty": True}
    made["hardware"]["cores"] = 1
    other.write_text(json.dumps(made))
    assert main([f"runs={tmp_path / 'runs'}", f"out={tmp_path}", "page=false"]) == 0
    text = (tmp_path / "ssd" / "table1.md").read_text()
    assert (
        "- Not made alike: its runs are of 2 states of the code (version 0.1.0 commit fedcba987 "
        "with local changes; version 0.1.0 commit 012345678) and 2 kinds of hardware (Some CPU @ "
        "2.00GHz / 1 core / 1 thread; Some CPU @ 2.00GHz / 2 cores / 1 thread); their times may "
        "differ by it."
    ) in text


def test_missing_runs_are_named_and_fail_a_strict_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "runs", "target", n=6)
    arguments = [f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"]
    assert main(arguments) == 0
    told = capsys.readouterr().err.splitlines()
    (line,) = (line for line in told if line.startswith("missing:"))  # README's sweep gave 8
    assert line.startswith("missing: runs of ssd table1, ssd table3, ")
    assert line.endswith("; strict=true says what makes them")
    assert told[-1] == f"open {tmp_path / 'out' / 'index.html'} in a browser"
    for ending in ("md", "tex", "csv"):  # a row of dashes for each, and a command for each, once
        written = (tmp_path / "out" / "ssd" / f"table1.{ending}").read_text()
        assert "Target alone" in written
        assert ("Draft alone" in written) == (ending == "md")
    page = (tmp_path / "out" / "ssd" / "table1.md").read_text()
    listed = page.partition("\nMissing:\n\n")[2].partition("\n\n")[0]
    assert re.fullmatch(r"- Draft alone; .*: sst-decode experiment=ssd/table1 .*", listed)
    assert main([*arguments, "strict=true"]) == 3
    errors = capsys.readouterr().err
    told = "Draft alone (and 4 more): sst-decode experiment=ssd/table1 "
    assert f"missing: ssd table1: {told}" in errors
    lines = re.findall(r"^missing: ssd (\w+):", errors, re.MULTILINE)
    assert len(lines) == len({*lines})  # one a table or figure; a small sweep once gave 33


def test_nothing_scored_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "runs", "target", n=6, scored=False)
    assert main([f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert "not scored; sst-eval runs=" in lines[0]
    assert "has no scored run for paper=ssd" in lines[-1]


def test_runs_left_out_are_five_and_a_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of a thousand unscored runs printed a thousand lines."""
    make_run(tmp_path / "runs", "target", n=2)
    for seed in range(8):
        make_run(tmp_path / "runs", "draft", n=2, scored=False, seed=seed)
    main([f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"])
    lines = capsys.readouterr().err.splitlines()
    assert sum(" left out: not scored" in line for line in lines) == 5
    assert "... and 3 more like these" in lines


def test_audio_that_was_deleted_is_not_shown(tmp_path: Path) -> None:
    for system in ("target", "draft"):
        make_run(tmp_path / "runs", system, n=4)
    for path in (tmp_path / "runs").glob("draft-*/audio/*.wav"):
        path.unlink()
    assert main([f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"]) == 0
    data = section(tmp_path / "out" / "index.html")
    assert not data["utterances"]
    assert "data:audio" not in (tmp_path / "out" / "index.html").read_text()


def test_two_papers_do_not_lose_each_others_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads the page, puts its own part in and writes it: make -j 2 has two at once."""

    def held_page(*arguments: Any) -> str:
        with pytest.raises(ValueError, match="in use by another process"), held(tmp_path, "none"):
            pass
        return page(*arguments)

    monkeypatch.setattr("speculative_tts.reporting.page.page", held_page)
    make_run(tmp_path / "runs", "target", n=10)
    assert main([f"runs={tmp_path / 'runs'}", f"out={tmp_path}"]) == 0
    assert section(tmp_path / "index.html")["tables"]
