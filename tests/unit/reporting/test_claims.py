"""The claims page: a verdict follows from an interval alone, and what has no run says so."""

from pathlib import Path

import pytest
from csv_rows import by_key
from synthetic_runs import FINE, groups_of, make_run

from speculative_tts.commands.report import main
from speculative_tts.evaluation.statistics import Measure
from speculative_tts.reporting.definitions import Claim, ClaimKind
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.fill_claims import Finding, _whole, figure_of, verdict
from speculative_tts.reporting.needs import Chosen
from speculative_tts.reporting.quantities import quantity
from speculative_tts.reporting.runs import Run
from speculative_tts.reporting.shown import REPORTS

OF_PCG = FINE | {
    "sampling": {
        "temperature": 0.8,
        "top_k": 0,
        "top_p": 1.0,
        "repetition_penalty": 1.0,
        "text_rows": True,
    }
}
RISES = Claim("", "", "wer", "a", "b", above=0.0)
SAME = Claim("", "", "wer", "a", "b", above=-2.0, below=2.0)


@pytest.mark.parametrize(
    ("claim", "low", "high", "told"),
    [
        (RISES, 0.1, 3.0, Finding.shows),
        (RISES, -0.1, 3.0, Finding.unclear),
        (RISES, -3.0, -0.1, Finding.opposite),
        (RISES, 0.0, 0.0, Finding.unclear),  # no difference at all is no rise, and no fall either
        (SAME, -1.9, 1.9, Finding.shows),
        (SAME, -1.9, 2.1, Finding.unclear),
        (SAME, 2.1, 3.0, Finding.opposite),
        (SAME, -3.0, -2.1, Finding.opposite),
        (SAME, -3.0, 3.0, Finding.unclear),  # too few utterances never show that nothing changes
    ],
)
def test_a_verdict_is_where_the_interval_lies(
    claim: Claim, low: float, high: float, told: Finding
) -> None:
    assert verdict(Measure((low + high) / 2, low, high), claim) is told


def test_a_figure_without_interval_or_run_has_no_verdict() -> None:
    assert verdict(Measure(50.0), RISES) is Finding.unclear
    assert verdict(Measure(None), RISES) is Finding.missing


def test_a_speed_of_few_processes_has_no_verdict() -> None:
    """Two of four verdicts "opposite" rested on a process that was lucky."""
    claim = Claim("", "", "speedup", "a", below=1.1)
    for processes, found in ((1, Finding.few), (4, Finding.few), (5, Finding.opposite)):
        assert verdict(Measure(1.2, 1.15, 1.25, processes=processes), claim) is found


def test_a_starved_machine_is_said_in_its_row() -> None:
    """A machine with a fifth of its memory's speed led the README."""

    def starved(own: float, of_processes: float | None) -> str:
        told = {"memory": {"gb_per_second": own, "quiet": 10.0}}
        return Run(Path("run"), {}, {"memory": of_processes}, told).starved

    found = [starved(9.0, speed) for speed in (5.0, 8.0, None)]
    assert found == ["starved: 5 GB/s a core, quiet 10", "", ""]
    assert starved(5.0, None) == "starved: 5 GB/s a core, quiet 10", "a run of one process"
    assert Run(Path("run"), {}, {}, {}).starved == "", "an older run"


def test_claims_are_of_four_kinds_and_what_must_hold_is_no_evidence() -> None:
    """ "14 of 25 confirmed" counted laws, constructions and bounds that cannot fail.

    Later 3 of 13 "effects" were this project's own, and the report counted them with the papers'.
    """
    claimed = [claim for table in REPORTS["claims"](TINY).claims for claim in table.claims]
    kinds = {kind: [one for one in claimed if one.kind is kind] for kind in ClaimKind}
    assert all(kinds.values())
    assert all(bool(one.headline) is (one.kind is ClaimKind.headline) for one in claimed)
    assert len({one.headline for one in kinds[ClaimKind.headline]}) == 4
    for one in claimed:
        assert one.paper.startswith("- (") is (one.kind is ClaimKind.own), one.text
    laws = {one.text for one in kinds[ClaimKind.control]}
    for text in ("A tolerance makes rounds longer", "PCG costs fewer than 5 points of words"):
        assert text in laws


def test_heads_without_a_cache_stand_beside_a_target_without_one() -> None:
    """Cached heads over an uncached target were 32.5 times as fast; the cache alone was 24.1."""
    (table,) = [one for one in REPORTS["claims"](TINY).claims if one.name == "mtp"]
    (claim,) = [one for one in table.claims if one.over == "uncached"]
    ours, beside = (table.rows[key].where["system"] for key in (claim.of, claim.over))
    assert (ours, beside) == ("uncached_heads", "uncached")


def test_a_headline_holds_where_all_its_parts_do() -> None:
    """Of parts "opposite, shows" no reader knew which was the speed's and which the words'."""
    shows, unclear, opposite, no_pair = (
        ("WER %", one.value)
        for one in (Finding.shows, Finding.unclear, Finding.opposite, Finding.no_pair)
    )
    fast = ("speedup", Finding.shows.value)
    assert _whole([fast, shows]) == "passes its tests on this list"
    assert _whole([fast, opposite]) == "not reproduced (speedup shows, WER % opposite)"
    assert _whole([fast, unclear]) == "not shown (speedup shows, WER % does not show)"
    assert _whole([fast, no_pair]) == "not shown (speedup shows, WER % no pair)"


def test_a_ratio_is_over_the_other_systems_figure() -> None:
    def figure(value: float) -> dict[str, float]:
        return {"value": value, "low": 0.8 * value, "high": 1.25 * value, "processes": 5}

    fast, slow = (
        Run(Path(name), {}, {"metrics": {"speedup": figure(value)}}, {})
        for name, value in (("fast", 1.4), ("slow", 0.05))
    )
    claim = Claim("", "", "speedup", "fast", over="slow", above=2.0)
    found = figure_of(claim, Chosen({"fast": (fast,), "slow": (slow,)}))
    assert (found.value, found.low, found.high) == pytest.approx((28.0, 28 * 0.64, 28 / 0.64))
    assert verdict(found, claim) is Finding.shows
    assert Measure(1.0, -0.1, 2.0).over(Measure(2.0, 1.0, 3.0)) == Measure(0.5)
    assert Measure(1.0, 0.9, 1.1).over(Measure(0.1, -0.1, 0.3)) == Measure(10.0)
    alone = figure_of(claim, Chosen({"fast": (fast,)}))
    assert verdict(alone, claim) is Finding.missing


def claims_of(runs: Path) -> dict[str, dict[str, str]]:
    """The lines that sst-report writes of these runs."""
    out = runs.parent / "out"
    assert main([f"runs={runs}", f"out={out}", "paper=claims"]) == 0
    return by_key(out / "claims" / "claims.csv")


@pytest.fixture(scope="module")
def page(runs: Path) -> dict[str, dict[str, str]]:
    return claims_of(runs)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ground where drafts err most and β makes rounds longer, without MTP's runs."""
    runs = tmp_path_factory.mktemp("claims") / "runs"
    for folder, parts in (("ssd", FINE), ("pcg", OF_PCG)):
        for system in ("target", "draft", "speculative"):
            make_run(runs / folder, system, **parts)
        for beta in (0.1, 0.2, 0.3, 0.4):
            make_run(runs / folder, "speculative", rule="tolerance", beta=beta, **parts)
    for size, beta in ((4.5, 0.1), (10.3, 0.2), (40.0, 0.3)):
        made = {"rule": "group", "beta": beta, "groups": groups_of(size), **OF_PCG}
        make_run(runs / "pcg", "speculative", **made)
    make_run(runs / "pcg", "swap", rule="group", beta=9.0, groups=groups_of(4.5), **OF_PCG)
    make_run(runs / "fine", "speculative", rule="tolerance", beta=0.4, lookahead=6, **FINE)
    make_run(runs / "tiny", "target")  # of another target: no part of it
    return runs


def test_claims_are_tested_on_another_target_where_all_runs_are_its_own(tmp_path: Path) -> None:
    """Runs of a target that no experiment has gave a page on which nothing was measured."""
    mine = {"target": {"name": "mine", "path": "mine"}, "draft": {"name": "half", "path": "half"}}
    for folder, sampler in (("ssd", {}), ("pcg", {"sampling": OF_PCG["sampling"]})):
        for system in ("target", "draft", "speculative"):
            make_run(tmp_path / "runs" / folder, system, **mine, **sampler)
        rule = {"rule": "tolerance", "beta": 0.3 if sampler else 0.4}
        make_run(tmp_path / "runs" / folder, "speculative", **rule, **mine, **sampler)
    far = {"rule": "tolerance", "beta": 0.4, "lookahead": 6}
    make_run(tmp_path / "runs" / "ssd", "speculative", **far, **mine)
    page = claims_of(tmp_path / "runs")
    assert told(page, "A draft alone errs far more") == Finding.shows.value
    assert told(page, "A tolerance costs fewer") != Finding.missing.value
    assert told(page, "A tolerance costs words") != Finding.missing.value
    assert told(page, "PCG has fewer word errors") == Finding.missing.value
    assert not any("MTP" in row["system"] or row.get("likely reason") for row in page.values())


def told(page: dict[str, dict[str, str]], text: str) -> str:
    (row,) = [row for row in page.values() if f" / {text}" in row["system"]]
    return row["verdict"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A draft alone errs far more", Finding.shows),
        ("A tolerance makes rounds longer", Finding.shows),
        ("Swaps within groups of 4.5", Finding.opposite),  # made to err on half of the words
        ("PCG has fewer word errors", Finding.unclear),  # the same words were made for both
        ("Groups by mel frames cost", Finding.missing),
        ("8 heads by the best path", Finding.missing),
    ],
)
def test_runs_decide(page: dict[str, dict[str, str]], text: str, found: Finding) -> None:
    assert told(page, text) == found.value


def test_a_speed_of_one_process_is_not_shown(page: dict[str, dict[str, str]]) -> None:
    """It decides nothing, yet stood beside the verdict; a difference of two even got a verdict."""
    speeds = [row for row in page.values() if row["test"].startswith("speedup of ")]
    known = [row for row in speeds if row["verdict"] != Finding.missing.value]
    assert any(" minus " in row["test"] for row in known)
    for row in known:
        assert row["verdict"] == Finding.few.value
        assert not any(row.get(f"here{end}") for end in ("", "_low", "_high", "_p"))


def test_a_length_that_no_run_has_makes_no_pair(tmp_path: Path) -> None:
    """Of one size alone the nearest was compared: 18 % less length, and PCG "beat" SSD.

    Later such a claim counted as not shown, though nothing had been compared.
    """
    runs = tmp_path / "runs"
    make_run(runs, "speculative", rule="tolerance", beta=0.3, **OF_PCG)
    make_run(runs, "speculative", rule="group", beta=0.0, groups=groups_of(4.5), **OF_PCG)
    page = claims_of(runs)
    assert told(page, "PCG has fewer word errors") == Finding.no_pair.value
    text = (tmp_path / "out" / "claims" / "claims.md").read_text()
    assert "further than 3 %, so not compared" in text
    assert "PCG (Yanuka et al.): The draft (tiny:draft) is layers" in text
    assert "This is not the paper's policy: 3 of 32 layers" in text


def test_every_claim_names_its_test_and_its_command(page: dict[str, dict[str, str]]) -> None:
    assert len(page) >= 15
    for row in page.values():
        assert " above " in row["test"] or " below " in row["test"]
        assert "sst-decode experiment=" in row["made by"]
        assert row["paper"]


@pytest.mark.parametrize("name", ["claims", "retest", "late"])
def test_claims_speak_of_systems_and_quantities_that_are_there(name: str) -> None:
    for table in REPORTS[name](TINY).claims:
        for claim in table.claims:
            assert {claim.of, claim.minus or claim.of} <= set(table.rows)
            assert quantity(claim.quantity).heading
            assert claim.above < claim.below


def test_printed_differences_are_of_the_papers_tables() -> None:
    papers = {
        claim.text: claim.paper
        for table in REPORTS["claims"](TINY).claims
        for claim in table.claims
    }
    assert papers["A tolerance costs words"] == "+7.4 (18.5 ± 1.9, 11.1 ± 0.6; Table 1)"
    assert papers["A draft alone errs far more than its target"] == "+12.5 (16.13, 3.67; Table 1)"


@pytest.mark.parametrize(
    ("name", "known", "hidden"),
    [
        ("tiny", "80 of the 240", "committed with the recipe"),
        ("tiny_registered", "committed with the recipe", "80 of the 240"),
        ("own", "Speeds get a verdict", "Margins were set"),
    ],
)
def test_a_page_says_what_was_known_of_its_list(
    tmp_path: Path, name: str, known: str, hidden: str
) -> None:
    own = {"data": {"name": name, "path": f"{name}.jsonl"}}
    make_run(tmp_path / "runs", "target", **FINE, **own)
    claims_of(tmp_path / "runs")
    text = (tmp_path / "out" / "claims" / "claims.md").read_text()
    assert known in text
    assert hidden not in text
