"""make's chains at the papers' scale: what they run exists, and preflight looks for all of it."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from cli.test_paper_guide import LOOP

from speculative_tts.commands import check, decode, report
from speculative_tts.commands import eval as evaluate
from speculative_tts.commands.arguments import one_by_one
from speculative_tts.preflight.needs import needs
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.shown import REPORTS
from speculative_tts.schema.evaluate import Paper

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "sst-check": check.main,
    "sst-decode": decode.main,
    "sst-eval": evaluate.main,
    "sst-report": report.main,
}


def said(*arguments: str) -> str:
    """Return the lines that make would run."""
    make = ["make", "-n", "--no-print-directory", *arguments]
    return subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def planned(*arguments: str) -> list[list[str]]:
    """The sst-commands that make would run, loops and experiments written out."""
    each = LOOP.sub(
        lambda m: "\n".join(m[2].replace("$one", one) for one in m[1].split()), said(*arguments)
    )
    out = each.replace(";", "\n")
    lines = [shlex.split(line.partition("||")[0]) for line in out.splitlines() if "sst-" in line]
    return [[Path(line[0]).name, *one] for line in lines for one in one_by_one(line[1:])]


@pytest.mark.whole
@pytest.mark.parametrize("name", ["ssd", "pcg", "mtp"])
def test_a_papers_chain(name: str) -> None:
    """It begins with the paper's own preflight, runs all its experiments, and all composes."""
    lines = planned(name, "SCALE=paper", "MODELS=our models")
    assert lines[0][:3] == ["sst-check", "paper", f"only=[{name}]"]
    assert [line[0] for line in lines].count("sst-check") == 1  # one table
    assert [line[0] for line in lines[-2:]] == ["sst-eval", "sst-report"]
    for program, *options in lines:
        assert COMMANDS[program].compose(options)
    runs = [line for line in lines if line[0] == "sst-decode"]
    configs = (ROOT / "configs/experiment" / name).glob("paper_*.yaml")
    assert {line[1] for line in runs} == {f"experiment={name}/{path.stem}" for path in configs}
    looked_for = {need.item for need in needs(Path("our models"))[Paper[name]]}
    for _, *options in runs:
        config = decode.main.compose(options)
        paths = {config.target.path, config.codec.path, config.data.path}
        paths |= set() if name == "mtp" else {config.draft.path}
        if name == "mtp":
            paths |= {str(config.heads.path), str(config.viterbi.transitions.path)}
        assert paths <= looked_for


def test_papers_are_chosen() -> None:
    def papers(*arguments: str) -> list[str]:
        options = [line[1] for line in planned("reproduce", "MODELS=m", *arguments)]
        found = [re.match(r"experiment=(\w+)/", option) for option in options]
        return list(dict.fromkeys(match[1] for match in found if match))

    assert papers("SCALE=paper") == papers() == ["ssd", "pcg", "mtp"]
    assert papers("SCALE=paper", "PAPERS=ssd mtp") == ["ssd", "mtp"]
    assert papers("PAPERS=pcg") == ["pcg"]
    whole = planned("reproduce", "SCALE=paper", "PAPERS=ssd mtp")
    assert [line[1:3] for line in whole if line[0] == "sst-check"] == [["paper", "only=[ssd,mtp]"]]


def test_scales_do_not_mix() -> None:
    tiny = [line[1] for line in planned("ssd") if line[0] == "sst-decode"]
    assert tiny
    assert not any("paper_" in option for option in tiny)
    wrong = ["make", "-n", "ssd", "SCALE=large"]
    failed = subprocess.run(wrong, cwd=ROOT, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert "give SCALE=tiny or SCALE=paper" in failed.stderr


def test_the_frontier_decodes_the_seed_that_its_report_shows() -> None:
    """SEEDS=1 decoded runs of which no table said anything."""
    runs = [line for line in planned("frontier", "SEEDS=1") if line[0] == "sst-decode"]
    assert {option for line in runs for option in line if option.startswith("seed=")} == {"seed=0"}
    assert any("seed=1" in line for line in planned("ssd", "SEEDS=1"))


def test_what_a_second_list_is_asked_is_decoded_on_it() -> None:
    """Words are of all its utterances and seeds; speeds of few, in five processes."""
    given = [dict(one.split("=", 1) for one in line[1:]) for line in planned("retest")]
    runs = [one for one in given if one.get("data") == "tiny_registered2"]
    for table in REPORTS["retest"](TINY).claims:
        folder = "speeds" if table.name.endswith("_speed") else "words"
        made = {one["experiment"] for one in runs if one["out"] == f"runs/retest/{folder}"}
        assert made >= set(table.systems)
    assert {one["seed"] for one in runs if one["timing"] == "0"} == {"0,1,2"}
    assert {one["processes"] for one in runs if one["timing"] != "0"} == {"5"}


def test_speeds_of_the_first_list_are_timed_as_registered() -> None:
    """They were of one process, which is no verdict."""
    given = [dict(one.split("=", 1) for one in line[1:]) for line in planned("registered-speeds")]
    runs = [one for one in given if one.get("data") == "tiny_registered"]
    systems = [one for table in REPORTS["late"](TINY).claims for one in table.systems]
    assert {one["experiment"] for one in runs} == set(systems)
    timed = {(one["processes"], one["timing"], one["limit"], one["seed"]) for one in runs}
    assert timed == {("5", "60", "60", "0")}


def test_another_environment_scores() -> None:
    out = said("pcg", "SCALE=paper", "SCORER=/env")
    assert "/env/bin/sst-eval runs=" in out
    assert '/env/bin/sst-check judges "only=[pcg]"' in out


@pytest.mark.whole
def test_make_results_is_what_writes_the_tables_that_ship() -> None:
    def writing(name: str) -> list[str]:
        writers = ("sst-report", "sst-bench", "benchmarks.")
        return [one for one in said(name).splitlines() if any(each in one for each in writers)]

    timed_seed, all_seeds = writing("results")[:4], writing("results")[4:]
    assert all("out=runs/results" in line for line in timed_seed)  # a kill leaves what ships whole
    assert len(all_seeds) == 16
    assert all("out=results" in line for line in all_seeds)
    papers = ("ssd", "pcg", "mtp", "claims")
    others = (
        *("tiny-system", "streaming", "frontier", "drafters", "speeds"),
        *("samplers", "voices", "fresh", "bench"),
    )
    plain = [line for name in papers + others for line in writing(name)]
    assert len(plain) == 13
    assert not any("out=results" in line for line in plain)
