"""results/claims says what today's definitions say, and the pages count as it counts."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest
from shipped import read_table

from speculative_tts.reporting.definitions import ClaimKind
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.fill_claims import PLACE, Finding, counts
from speculative_tts.reporting.shown import REPORTS
from speculative_tts.reporting.tables import Block

ROOT = Path(__file__).resolve().parents[3]
SHIPPED, REPORT = ROOT / "results", REPORTS["claims"](TINY)
CLAIMS = {
    f"{table.name}{n}": claim for table in REPORT.claims for n, claim in enumerate(table.claims, 1)
}
ANSWERS = (Finding.shows, Finding.unclear, Finding.opposite)  # columns of results/README.md
SPLIT = re.compile(r" \(registered as: (?P<old>.*)\)$")


def blocks() -> list[Block]:
    return list(read_table(SHIPPED / "claims", REPORT, "claims").blocks)


def read(folder: str) -> list[dict[str, str]]:
    with (SHIPPED / folder / "claims.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_each_claim_has_its_words_and_stands_among_its_kind() -> None:
    """Three claims that no paper makes stood among the effects of the papers' methods."""
    shown = [(block.title, line.key, line.label) for block in blocks() for line in block.lines]
    texts = {key: label.split(" / ", 1)[1] for _, key, label in shown}
    assert texts == {key: claim.text for key, claim in CLAIMS.items()}
    assert {key: title for title, key, _ in shown} == {k: c.kind.value for k, c in CLAIMS.items()}


@pytest.mark.parametrize("number", range(len(ClaimKind)))
def test_the_results_page_counts_as_the_report(number: int) -> None:
    """The page split kinds that the report counted together."""
    page, block = (SHIPPED / "README.md").read_text(encoding="utf-8"), blocks()[number]
    told = Counter(line.cells[PLACE].value for line in block.lines)
    name = block.title.partition(":")[0]
    name = f"parts of {name}" if number == len(ClaimKind) - 1 else name
    cells = " | ".join(str(told[one.value] or "") for one in ANSWERS)
    assert f"| {name}, {told.total()} | {cells} |".lower() in page.lower()


def test_both_pages_say_of_a_headline_what_the_report_says() -> None:
    """The report called a headline the opposite of which a part is shown, README did not."""
    found = blocks()
    lines = counts(found)[len(found) :]
    verdicts = dict(
        re.findall(r"^(.*): (reproduces|not shown|not reproduced)", "\n".join(lines), re.MULTILINE)
    )
    assert len(verdicts) == len(lines) == 4
    page = (SHIPPED / "README.md").read_text(encoding="utf-8")
    bold = re.findall(
        r"^- \*\*(.*)\.\*\*", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(bold) == len(verdicts)
    for (name, verdict), said in zip(verdicts.items(), bold, strict=True):
        assert f"| {name} | {verdict}:" in page
        assert said.endswith(f": {verdict}")


def test_a_registered_claim_has_the_words_of_the_same_test_today() -> None:
    """What was registered stood under names that are stronger than their tests."""
    today = {row["test"]: row["system"].split(" / ", 1)[1] for row in read("claims")}
    known = [row for row in read("registered/claims") if row["test"] in today]
    assert len(known) > 15
    for row in known:
        assert SPLIT.sub("", row["system"]) == today[row["test"]]


def test_the_results_page_counts_what_was_registered() -> None:
    """Laws and controls are counted apart: they must hold."""
    controls = {
        row["test"] for row in read("claims") if CLAIMS[row["key"]].kind is ClaimKind.control
    }
    rows = read("registered/claims")
    told = Counter((row["verdict"], row["test"] in controls) for row in rows)
    few = told[Finding.few.value, False]
    text = (
        f"of the {len(rows) - few} that rest on no clock {told['shows', True] + told['shows', False]}"
        f" are shown ({told['shows', True]} laws and controls, {told['shows', False]} effects),"
        f" {told['does not show', False]} not, {told['opposite', False]} is opposite"
    )
    assert told.total() == few + told["shows", True] + sum(
        told[one.value, False] for one in ANSWERS
    )
    assert text in (SHIPPED / "README.md").read_text(encoding="utf-8")
