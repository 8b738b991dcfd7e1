"""results/claims says what today's definitions say, and the pages count as it counts."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import NormalDist

import pytest
from csv_rows import by_key
from kept_runs import cells, scores
from shipped import read_csv, read_page, read_table

from speculative_tts.evaluation.compare import compare_rows
from speculative_tts.evaluation.summary import Bootstrap
from speculative_tts.reporting.checkpoints import LAYER
from speculative_tts.reporting.definitions import ClaimKind
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.fill_claims import (
    BOUNDS,
    CAPTION,
    SPEEDS,
    VERDICT,
    Finding,
    counts,
)
from speculative_tts.reporting.paper import known_of_lists
from speculative_tts.reporting.shown import REPORTS
from speculative_tts.reporting.tables import Block, exact

ROOT = Path(__file__).resolve().parents[3]
REPORT = REPORTS["claims"](TINY)
CLAIMS = {
    f"{table.name}{n}": claim for table in REPORT.claims for n, claim in enumerate(table.claims, 1)
}
ANSWERS = [one.value for one in (Finding.shows, Finding.unclear, Finding.opposite)]
NO_PAIR = Finding.no_pair.value
REGISTERED = re.compile(r" \(registered as: .*\)$")
SWAP_MENDED = "2026-11-26T11:10:53+00:00"  # since then a swapped token draws another one
HEADLINE = re.compile(r"(.*): (reproduces|not shown|not reproduced)\b")


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks() -> Mapping[str, Block]:
    return read_table(ROOT / "results/claims", REPORT, "claims").blocks


def rows(folder: str) -> list[dict[str, str]]:
    return read_csv(ROOT / f"results/{folder}/claims.csv")


def claimed(row: dict[str, str]) -> str:
    """Return the words of a claim, without the paper or headline before them."""
    return row["system"].split(" / ", 1)[1]


def test_each_claim_has_its_words_and_stands_among_its_kind() -> None:
    """Three claims that no paper makes stood among the effects of the papers' methods."""
    assert {row["key"]: claimed(row) for row in rows("claims")} == {
        key: claim.text for key, claim in CLAIMS.items()
    }
    kinds = {key: title for title, block in blocks().items() for key in block}
    assert kinds == {key: claim.kind.value for key, claim in CLAIMS.items()}


@pytest.mark.parametrize("kind", ClaimKind)
def test_the_results_page_counts_as_the_report(kind: ClaimKind) -> None:
    """The page split kinds that the report counted together.

    Its column "not shown" holds a claim without a pair too, and a sentence says so.
    """
    found = Counter(line[VERDICT].value for line in blocks()[kind.value].values())
    alone = found.pop(NO_PAIR, 0)
    found[Finding.unclear.value] += alone
    parts = "parts of " if kind is ClaimKind.headline else ""
    cells = " | ".join(str(found[one] or "") for one in ANSWERS)
    line = f"| {parts}{kind.value.partition(':')[0]}, {found.total()} | {cells} |"
    page = text("results/README.md").lower()
    assert line.lower() in page
    assert alone <= 1
    assert not alone or "one effect not shown has no figure" in page


def test_both_pages_say_of_a_headline_what_the_report_says() -> None:
    """The report called a headline the opposite of which a part is shown, README did not."""
    found = blocks()
    lines = counts(found)[len(found) :]
    verdicts = [one.groups() for line in lines if (one := HEADLINE.match(line))]
    bold = re.findall(r"^- \*\*(.*)\.\*\*", text("README.md"), re.MULTILINE)
    assert len(lines) == len(verdicts) == len(bold) == 4
    for (name, verdict), said in zip(verdicts, bold, strict=True):
        assert f"| {name} | {verdict} |" in text("results/README.md")
        assert said.endswith(f": {verdict}")


@pytest.mark.parametrize(
    ("folder", "known"), [("claims", "tiny"), ("registered/retest", "tiny_registered2")]
)
def test_a_page_of_claims_by_the_recurrent_layer_says_what_a_report_says(
    folder: str, known: str
) -> None:
    """The claims of the test list did not say what the dev list had shown, nor that drafts in 8
    bits say other tokens.
    """
    page = read_page(ROOT / f"results/{folder}/claims.md")
    assert page.caption[-1] == CAPTION
    assert {SPEEDS, BOUNDS, known_of_lists()[known], LAYER} <= {*page.notes}


def test_a_registered_claim_has_the_words_of_the_same_test_today() -> None:
    """What was registered stood under names that are stronger than their tests."""
    today = {row["test"]: claimed(row) for row in rows("claims")}
    known = [row for row in rows("registered/claims") if row["test"] in today]
    assert len(known) > 15
    for row in known:
        assert REGISTERED.sub("", row["system"]) == today[row["test"]]


@pytest.mark.parametrize(
    ("claims", "heard"),
    [
        ("claims", "pcg"),
        ("registered/claims", "registered/claims"),
        ("sentences/pcg_sampler/claims", "sentences/pcg_sampler/claims"),
    ],
)
def test_a_claim_on_swaps_says_by_which_test_it_was_heard(claims: str, heard: str) -> None:
    """Two registered claims were of swaps that might draw the token itself, and said so nowhere."""
    runs = json.loads(text(f"results/{heard}/runs.json"))
    dates = [run["provenance"]["date"] for name, run in runs.items() if name.startswith("swap-")]
    on_swaps = [row for row in rows(claims) if "swaps (size" in row["test"]]
    assert dates
    assert on_swaps
    for row in on_swaps:
        assert ("a token might draw itself" in row["system"]) == (min(dates) < SWAP_MENDED)


def test_the_claims_on_swaps_are_of_the_mended_test() -> None:
    table = by_key(ROOT / "results/pcg/table2.csv")
    for row in rows("claims"):
        if size := re.search(r"swaps \(size (.*)\)", row["test"]):
            swapped = table[size[1]]
            assert [row["here"], row["here_low"], row["here_high"]] == [
                swapped[f"wer_minus_target{end}"] for end in ("", "_low", "_high")
            ]


@pytest.mark.parametrize(
    ("key", "of", "minus"),
    [
        ("ssd2", ("ssd", "speculative-exact"), ("ssd", "target")),
        ("ssd5", ("ssd", "speculative-tolerance-b0.4"), ("ssd", "speculative-exact")),
        ("ssd9", ("ssd", "speculative-tolerance-b0.4"), ("ssd", "target")),
        ("pcg1", ("pcg", "speculative-tolerance-b0.3-k3"), ("pcg", "speculative-exact-k3")),
        ("pcg6", ("pcg", "swap-m4.5"), ("pcg", "target")),
        ("pcg7", ("pcg", "swap-m10.3"), ("pcg", "target")),
        ("pcg11", ("pcg", "speculative-group-m140-k3"), ("pcg", "speculative-tolerance-b0.3-k3")),
    ],
)
def test_p_of_a_claim_is_not_corrected(
    key: str, of: tuple[str, str], minus: tuple[str, str]
) -> None:
    """Five rows had the p of their source tables, by Holm's method, beside plain ones."""
    row = cells("claims/claims", key)
    found = compare_rows(scores(*minus), scores(*of), "wer", Bootstrap()).scaled(100)
    said = [row[f"here{end}"] for end in ("", "_low", "_high", "_p")]
    assert [exact(one) for one in (found.value, found.low, found.high, found.p)] == said


@pytest.mark.parametrize("key", ["ours1", "ours2"])
def test_p_of_runs_whose_scores_do_not_ship_is_read_from_the_interval(key: str) -> None:
    row = cells("claims/claims", key)
    value, low, high = (float(row[f"here{end}"]) for end in ("", "_low", "_high"))
    error = (high - low) / 2 / NormalDist().inv_cdf(0.975)
    assert f"{2 * NormalDist().cdf(-abs(value) / error):.3g}" == row["here_p"]


def test_the_results_page_counts_what_was_registered() -> None:
    """Laws and controls are counted apart: they must hold."""
    kinds = {row["test"]: CLAIMS[row["key"]].kind for row in rows("claims")}
    found = Counter(
        (row["verdict"], kinds.get(row["test"]) is ClaimKind.control)
        for row in rows("registered/claims")
        if row["verdict"] not in (Finding.few.value, NO_PAIR)  # both hang on the clock
    )
    laws = found.pop((Finding.shows.value, True))
    effects, unclear, opposite = (found.pop((one, False)) for one in ANSWERS)
    assert not found, "a law or control that does not hold is told otherwise"
    shown = laws + effects
    said = (
        f"of the {shown + unclear + opposite} that rest on no clock {shown} are shown "
        f"({laws} laws and controls, {effects} effects), {unclear} not, {opposite} is opposite"
    )
    assert said in text("results/README.md")
