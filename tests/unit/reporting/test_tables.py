"""The three forms of a table, compared with files; SST_GOLDEN=write makes the files again."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from speculative_tts.evaluation.statistics import NOTHING, Measure
from speculative_tts.reporting.tables import (
    SYSTEM,
    Block,
    Cell,
    Heading,
    Table,
    comma_separated,
    escape,
    exact,
    latex,
    markdown,
    p_text,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "reporting"

LABELS = {"target": "Target alone", "ssd": "SSD (β = 0.4) & more_or_less"}


def block(headings: Sequence[Heading], **cells: Sequence[Cell]) -> Block:
    return {
        key: {SYSTEM: Cell(LABELS[key]), **dict(zip(headings, figures, strict=True))}
        for key, figures in cells.items()
    }


TABLE = Table(
    name="example",
    title="An example: 2 systems",
    blocks={
        "Beside the paper": block(
            (
                Heading("WER %", "pocketsphinx word grammar", "wer"),
                Heading("WER %", "paper", "paper_wer"),
                Heading("LM-RTF", "here", "lm_rtf"),
            ),
            target=(
                Cell.of(Measure(2.6389, 1.4549, 3.75, n=120)),
                Cell("3.67"),
                Cell.of(Measure(0.21253, 0.2114, 0.2138, n=120), 3),
            ),
            ssd=(
                Cell.of(Measure(6.1, sd=0.44, n=120), 1, spread="sd"),
                Cell("-"),
                Cell.of(NOTHING),
            ),
        ),
        "Differences": block(
            (Heading("Δ WER to target", "", "wer_minus_target"),),
            target=(Cell.of(NOTHING),),
            ssd=(Cell.of(Measure(-0.812, -1.9, 0.2, p=0.0123, n=118), signed=True),),
        ),
    },
    ruled=("ssd",),
    caption=("120 utterances.", "Brackets: 95 % intervals."),
    notes=("100 % of it is made up.",),
    origin=("Commands: `sst-decode experiment=a_b`",),
    missing=("Draft alone: sst-decode system=draft",),
)


@pytest.mark.parametrize(
    ("name", "write"),
    [("table.md", markdown), ("table.csv", comma_separated), ("table.tex", latex)],
)
def test_golden(name: str, write: object) -> None:
    text = write(TABLE)  # type: ignore[operator]
    if os.environ.get("SST_GOLDEN") == "write":
        (GOLDEN / name).write_text(text)
    assert text == (GOLDEN / name).read_text()


def test_latex_escapes_every_special_character() -> None:
    assert escape("50 % & a_b #1 $x$ {y} ~^\\ β ± \N{MINUS SIGN} < > ≤") == (
        r"50 \% \& a\_b \#1 \$x\$ \{y\} \textasciitilde{}\textasciicircum{}\textbackslash{} "
        r"$\beta$ $\pm$ $-$ $<$ $>$ $\le$"
    )
    assert escape("run `a_b` now") == r"run \texttt{a\_b} now"


@pytest.mark.parametrize(
    ("p", "text"), [(0.0001, "p < 0.001"), (0.0123, "p = 0.012"), (0.4, "p = 0.40")]
)
def test_p_values_in_words(p: float, text: str) -> None:
    assert p_text(p) == text


def test_a_rounded_zero_has_no_sign() -> None:
    assert Cell.of(Measure(-0.001), signed=True).value == "0.00"
    assert Cell.of(Measure(-0.01), signed=True).value == "\N{MINUS SIGN}0.01"


def test_pipes_do_not_break_markdown() -> None:
    line = {SYSTEM: Cell("a|b"), Heading("x", "", "x"): Cell.of(NOTHING)}
    assert r"| a\|b | - |" in markdown(Table("t", "t", blocks={"b": {"a": line}}))


@pytest.mark.parametrize("number", [None, float("nan"), float("inf")])
def test_a_figure_that_is_not_defined_is_an_empty_cell(number: float | None) -> None:
    """A `nan` in a CSV file is text to most programs, and a figure to none."""
    assert exact(number) == ""
    assert exact(0.1 + 0.2) == "0.3"
