"""Every report from synthetic runs of its experiments, at both scales, by each scale's judges."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from experiment_points import names, points
from markdown_tables import blocks
from shipped import read_csv
from synthetic_runs import JUDGES, group_facts, make_run, write_run

from speculative_tts.assets import configuration
from speculative_tts.commands.decode import main as decode
from speculative_tts.commands.eval import main as evaluate
from speculative_tts.commands.report import main
from speculative_tts.reporting.experiments import PAPERS_OWN, TINY, Scale, read, scale_of, values
from speculative_tts.reporting.fill_table import fill_table
from speculative_tts.reporting.needs import choose
from speculative_tts.reporting.runs import find_runs
from speculative_tts.reporting.shown import REPORTS
from speculative_tts.reporting.tables import headings

PAPERS = ("ssd", pytest.param("pcg", marks=pytest.mark.whole), "mtp")
IDS = {  # of the papers' judges, as summaries have them
    "whisper": "whisper-large-v3",
    "hubert": "hubert-large-ls960-ft",
    "conformer": "stt_en_conformer_transducer_large",
    "eres2net": "speech_eres2net_sv_en_voxceleb_16k",
    "wavlm": "wavlm_large_finetune",
    "xvector": "wavlm-base-plus-sv",
    "dnsmos": "dnsmos-p808",
    "utmos": "utmos22_strong",
}
TINYS_WORDS = ("tiny", "pocketsphinx", "flite", "word grammar", "ge2e", "4 layers", "35 words")
NATURALNESS = {"ssd": "DNSMOS", "pcg": "DNSMOS", "mtp": "UTMOS"}
COMMANDS = {"decode": decode, "eval": evaluate}
STRENGTH = {1: 0.0, 4.5: 0.1, 10.3: 0.2, 25: 0.3, 40: 0.35, 140: 0.5, 0.45: 0.0, 0.42: 0.1}


def judged_by(paper: str) -> dict[str, Any]:
    """What summaries say of a preset's judges; its metrics are those that it measures."""
    preset = configuration(f"judges/{paper}")
    makers = {"wer": preset["judges"]["recogniser"], "similarity": preset["judges"]["encoder"]}
    keys = {metric: makers.get(metric, metric) for metric in preset["metrics"]}
    return {metric: {"id": IDS[key], "version": "1"} for metric, key in keys.items()}


def make_runs(runs: Path, paper: str, scale: Scale, judges: dict[str, Any], n: int = 14) -> None:
    """A run for each point of the paper's experiments.

    Of fewer utterances SciPy takes Wilcoxon's p by permuting them, most of a report's time.
    """
    made = (config for name in names(paper, scale) for config in points(name))
    for number, config in enumerate(made):
        rule, facts = config["rule"], {}
        groups, strength = rule.get("groups"), rule.get("beta", 0.0)
        if config.pop("match") is not None:
            groups["mean_size"] = 60.0 if groups["source"] == "mel" else 25.0
        if groups is not None:
            key = groups["theta"] or groups["mean_size"]
            strength = STRENGTH.get(key, 0.2)
            facts = {"groups": group_facts(groups["mean_size"] or 30.0)}
        folder = runs / f"{config['system']}-s{config['seed']}-{number:08x}"
        if config["system"] not in ("speculative", "multi_token"):
            strength = 0.0
        write_run(folder, config, strength, n=n, facts=facts, judges=judges, sound=False)


@pytest.fixture(scope="module", params=PAPERS)
def papers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a paper's own experiments, heard by its own judges."""
    folder = tmp_path_factory.mktemp(request.param)
    make_runs(folder / "runs", request.param, PAPERS_OWN, judged_by(request.param))
    arguments = [f"runs={folder / 'runs'}", f"out={folder}", f"paper={request.param}"]
    assert main([*arguments, "strict=true"]) == 0
    return folder / str(request.param)


def columns(text: str) -> Iterator[tuple[str, list[str]]]:
    """Columns of the Markdown tables: heading, cells."""
    for block in blocks(text):
        yield from block.items()


def test_nothing_of_the_tiny_system_is_said(papers: Path) -> None:
    for path in [*papers.glob("*.md"), *papers.glob("*.tex"), papers.parent / "index.html"]:
        text = re.sub(r'src="data:[^"]*"', "", path.read_text()).lower()
        assert not [word for word in TINYS_WORDS if word in text], path.name


def test_every_judged_column_is_filled(papers: Path) -> None:
    """UTMOS was measured and never read: MTP's tables had DNSMOS, and that empty."""
    headings = ("WER %", "SIM", NATURALNESS[papers.name])
    for path in papers.glob("table[123]*.md"):
        found = list(columns(path.read_text()))
        for heading in headings:
            own = [c for h, c in found if h.startswith(f"{heading}, ") and ", paper" not in h]
            assert own or heading != "WER %", (path.name, heading)
            assert not any("-" in cells for cells in own), (path.name, heading)
        assert not [h for h, _ in found if "DNSMOS" in h and papers.name == "mtp"]


def test_judges_are_the_papers_and_no_figure_lacks_its_points(papers: Path) -> None:
    judges = {judge["id"] for judge in judged_by(papers.name).values()}
    text = (papers / "table1.md").read_text()
    assert all(name in text for name in judges)
    for path in papers.glob("*figure*.csv"):
        plots = {(row["plot"], row["kind"]) for row in read_csv(path)}
        assert {name for name, _ in plots} == {name for name, kind in plots if kind == "curve"}


@pytest.mark.whole
@pytest.mark.usefixtures("drawn_figures")
def test_every_figure_can_be_drawn(papers: Path, tmp_path: Path) -> None:
    """One without room for a label failed its whole report."""
    arguments = [f"runs={papers.parent / 'runs'}", f"out={tmp_path}", f"paper={papers.name}"]
    assert main([*arguments, "page=false"]) == 0
    for path in papers.glob("*figure*.png"):
        assert (tmp_path / papers.name / path.name).stat().st_size > 1000, path.name


@pytest.fixture(scope="module")
def tiny_mtp(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """MTP's tables at tiny scale, by name."""
    folder = tmp_path_factory.mktemp("tiny_mtp")
    make_runs(folder / "runs", "mtp", TINY, JUDGES)
    asked = ["paper=mtp", "strict=true", "page=false"]
    assert main([f"runs={folder / 'runs'}", f"out={folder}", *asked]) == 0
    return {path.stem: path.read_text() for path in (folder / "mtp").glob("table*.md")}


@pytest.mark.whole
def test_commands_for_missing_runs_run_as_they_are_printed(
    papers: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They had target=CosyVoice2-0.5B, the checkpoint's name, where the config is cosyvoice2.

    And a folder with a space in its name was two words of the shell.
    """
    monkeypatch.chdir(papers.parent)  # where runs were started: no <folder> to fill in
    runs = Path("runs").rename("our runs")
    every = enumerate(sorted(runs.iterdir()))
    unfinished = [run for place, run in every if place // 3 % 3 == 0]  # all seeds of a point
    for run in unfinished:
        (run / "DONE").unlink()
    assert main([f"runs={runs}", "out=again", f"paper={papers.name}", "strict=true"]) == 3
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("missing:")]
    printed = [found for line in lines for found in re.findall(r"sst-(\w+) ([^(),;]+)", line)]
    assert {program for program, _ in printed} == {"decode", "eval"}
    for program, settings in sorted(set(printed)):
        assert COMMANDS[program]([*shlex.split(settings), "--cfg", "job"]) == 0, settings
        shown = yaml.safe_load(capsys.readouterr().out)
        assert shown["out" if program == "decode" else "runs"] == str(runs), settings
        if program == "decode":
            assert shown["target"]["path"].startswith("models/"), settings
    for run in unfinished:
        (run / "DONE").touch()
    runs.rename("runs")


def test_mtp_at_tiny_scale_says_how_its_heads_were_made(tiny_mtp: dict[str, str]) -> None:
    texts = tiny_mtp
    assert "| DNSMOS, P.808 | DNSMOS, paper (UTMOS) |" in texts["table1"]
    assert (
        "(tiny:target_heads) were trained on a finished target, its trunk frozen"
        in (texts["table1"])
    )
    for name in ("table1_valle", "table2"):
        assert "(tiny:valle_heads) were trained jointly with the AR, from scratch" in texts[name]
        assert "The target has 4 layers of codes, the paper's 8." in texts[name]


def test_the_papers_figures_stand_beside_one_way_to_choose_a_path(tiny_mtp: dict[str, str]) -> None:
    """Table I had them beside the sampled path, Table II beside the best one."""
    for text in tiny_mtp.values():
        assert text.count("stand beside the best path everywhere") == 1
        found = list(columns(text))
        (systems,) = {tuple(cells) for heading, cells in found[:1]}
        printed = next(cells for heading, cells in found if heading.startswith("WER %, paper"))
        beside = [row for row, cell in zip(systems, printed, strict=True) if cell != "-"]
        assert beside
        assert not any("sampled" in row for row in beside)


def test_a_table_of_few_utterances_says_so_at_its_top(tmp_path: Path) -> None:
    """Figures of four utterances stood there as if they were results."""
    for system in ("target", "draft"):
        make_run(tmp_path / "runs", system, n=4)
    assert main([f"runs={tmp_path / 'runs'}", f"out={tmp_path}"]) == 0
    lines = (tmp_path / "ssd" / "table1.md").read_text().splitlines()
    assert lines[4].startswith("**Built on 4 utterances, fewer than 10: a trial, no result.")
    assert r"caption{SSD Table 1: draft alone" in (tmp_path / "ssd/table1.tex").read_text()
    assert "fewer than 10: a trial" in (tmp_path / "ssd" / "table1.tex").read_text()
    assert "fewer than 10: a trial" in (tmp_path / "index.html").read_text()
    wer = dict(columns("\n".join(lines) + "\n"))["WER %, pocketsphinx word grammar"]
    assert [cell for cell in wer if cell != "-"]
    assert all(cell == "-" or "(n = 4)" in cell or "[" in cell for cell in wer)


def test_the_scale_is_that_of_most_runs(tmp_path: Path) -> None:
    make_run(tmp_path, "target", n=2)
    assert scale_of("ssd", find_runs(tmp_path).runs) is TINY
    for seed in (1, 2):
        folder = make_run(tmp_path, "target", n=2, seed=seed)
        config = json.loads((folder / "config.json").read_text())
        config["target"]["name"] = "CosyVoice2-0.5B"
        (folder / "config.json").write_text(json.dumps(config))
    assert scale_of("ssd", find_runs(tmp_path).runs) is PAPERS_OWN
    assert scale_of("pcg", find_runs(tmp_path).runs) is TINY


def test_a_target_that_no_experiment_has_stands_where_the_fine_one_does(tmp_path: Path) -> None:
    assert scale_of("ssd", []) is TINY
    make_run(tmp_path, "target", n=2, target={"name": "mine", "path": "mine"})
    scale = scale_of("claims", find_runs(tmp_path).runs)
    assert scale.target == "mine"
    assert scale.read("pcg/figure2").target == "mine"
    assert "draft.name" not in scale.read("pcg/figure2").settings
    assert scale.read("pcg/figure2").grid == read("pcg/figure2").grid
    assert scale.read("mtp/table2") == read("mtp/table2")
    make_run(tmp_path, "target", n=2)  # beside another target's nothing is said
    assert scale_of("claims", find_runs(tmp_path).runs) is TINY


def test_a_method_that_an_experiment_leaves_out_takes_its_cells_with_it(tmp_path: Path) -> None:
    make_run(tmp_path, "target", n=10)
    definition = REPORTS["ssd"](TINY).tables[0]
    rows = {key: row for key, row in definition.rows.items() if key not in {"draft", "exact"}}
    less = replace(definition, rows=rows)
    table = fill_table(less, choose(find_runs(tmp_path), less.needs(), None))
    assert {key for block in table.blocks.values() for key in block} == {*rows}
    groups = [heading.group for block in table.blocks.values() for heading in headings(block)]
    assert "Δ WER to target alone" in groups
    assert not any("exact" in group for group in groups)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1,4.5,x", (1, 4.5, "x")), ("range(1,4)", (1, 2, 3)), (0.3, (0.3,)), ("true", (True,))],
)
def test_values_are_those_that_hydra_would_sweep(text: Any, expected: tuple[Any, ...]) -> None:
    assert values("key", text) == expected


def test_an_experiment_is_its_settings_and_its_grid() -> None:
    made = read("ssd/paper_table3")
    assert made.target == "CosyVoice2-0.5B"
    assert made.settings["rule.name"] == "tolerance"
    assert made.values("lookahead") == (3,)
    assert made.values("rule.beta") == (0, 0.1, 0.2, 0.3, 0.4)
