"""Verdicts: where the interval of a figure lies beside where a claim says that it must."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

from speculative_tts.evaluation.processes import ENOUGH
from speculative_tts.evaluation.statistics import NOTHING, Measure
from speculative_tts.reporting.captions import few, judge_name, synthetic
from speculative_tts.reporting.checkpoints import draft_notes, heads_notes, layer_notes
from speculative_tts.reporting.definitions import Claim, ClaimKind, ClaimTable
from speculative_tts.reporting.needs import Chosen
from speculative_tts.reporting.origin import mixed, origin
from speculative_tts.reporting.paper import known_of_lists
from speculative_tts.reporting.quantities import quantity
from speculative_tts.reporting.runs import Run
from speculative_tts.reporting.selection import compare
from speculative_tts.reporting.tables import MINUS, Block, Cell, Heading, Line, Table

NAME = "claims"
CAPTION = (
    "A claim *shows* where the whole 95 % interval lies where the test says, is *opposite* where "
    "none of it does, and else *does not show*: the interval crosses the bound. *No pair*: no run "
    "had the wanted length or speed, so nothing was compared. "
    "p is two-sided and of no difference, whatever the bound. Intervals are of the "
    "bootstrap over utterances, seeds of an utterance averaged first; differences are paired, "
    "a ratio of two systems has what both intervals allow. "
    "They are not corrected for the number of claims: about one verdict of words in forty errs by "
    "chance, of speeds more, since hours differ."
)
SPEEDS = (
    f"Speeds get a verdict where they were timed in {ENOUGH} processes or more: their intervals "
    "are over processes and utterances of one hour; another hour may move a speed by 0.1 "
    "(results/speeds/hours)."
)
BOUNDS = (
    "Bounds of the headlines (half of the gain in speed that the paper prints, 2 points of words, "
    "no difference) were set on 2026-11-26 when earlier figures were known: they bind the lists "
    "that come."
)
CLAIM, VERDICT = Heading("claim", "", "system"), Heading("verdict", "", "verdict")
TEST = Heading("test", "", "test")


class Finding(Enum):
    """The answer of our runs to a claim."""

    shows = "shows"
    unclear = "does not show"
    opposite = "opposite"
    no_pair = "no pair"
    few = "timed in too few processes"
    missing = "not measured yet"


DIFFERS = Finding.unclear, Finding.opposite, Finding.no_pair


def verdict(measure: Measure, claim: Claim) -> Finding:
    """Judge a figure in the unit of the claim; without an interval nothing is said of chance."""
    if measure.value is None:
        return Finding.missing
    if measure.processes is not None and measure.processes < ENOUGH:
        return Finding.few
    if measure.low is None or measure.high is None:
        return Finding.unclear
    if claim.above < measure.low and measure.high < claim.below:
        return Finding.shows
    if measure.high < claim.above or measure.low > claim.below:
        return Finding.opposite
    return Finding.unclear


def fill_claims(definitions: Sequence[ClaimTable], chosen: Mapping[str, Chosen]) -> Table:
    """Return one table of all papers' claims, with a block for each kind."""
    used = [chosen[one.name] for one in definitions]
    runs = list({run.name: run for one in used for run in one.runs}.values())
    made = [f"{one.title}: {note}" for one in definitions for note in _made(one, chosen[one.name])]
    by_kind = {kind.value: _block(kind, definitions, chosen) for kind in ClaimKind}
    blocks = {kind: block for kind, block in by_kind.items() if block}
    found = dict.fromkeys(note for one in used for note in one.notes)
    return Table(
        NAME,
        _title(runs),
        [*counts(blocks), CAPTION],
        [SPEEDS, BOUNDS, *_known(runs), *mixed(runs), *made, *layer_notes(runs), *found],
        origin(runs),
        (),  # each line has its command
        few([result for one in used for result in one.results.values()]),
        synthetic(runs),
        blocks,
    )


def _title(runs: Sequence[Run]) -> str:
    """Name the lists of these runs and who heard their words, by which pages of claims differ."""
    lists = " and ".join(dict.fromkeys(str(run.config.get("data.name")) for run in runs))
    judge = judge_name("wer", runs)
    return f"The papers' claims on the list {lists}{f', heard by {judge}' if judge else ''}"


def _known(runs: Sequence[Run]) -> list[str]:
    """Say what was known of the lists of these runs when margins were set."""
    lists = dict.fromkeys(str(run.config.get("data.name")) for run in runs)
    known = known_of_lists()
    return [known[name] for name in lists if name in known]


def _made(definition: ClaimTable, chosen: Chosen) -> list[str]:
    """Describe how the draft or heads were made, beside the paper's way."""
    drafts = draft_notes(chosen.runs, definition.paper.draft)
    return [*drafts, *heads_notes(chosen.runs, definition.paper.heads)]


def counts(blocks: Mapping[str, Block]) -> list[str]:
    """Say how many claims of each kind have which verdict; headlines one by one."""
    texts = []
    for kind, block in blocks.items():
        told = Counter(line[VERDICT].value for line in block.values())
        counts = ", ".join(f"{one.value} {told[one.value]}" for one in Finding if told[one.value])
        texts.append(f"{kind.partition(':')[0]}, {told.total()}: {counts}.")
    headlines: dict[str, list[tuple[str, str]]] = {}
    for line in blocks.get(ClaimKind.headline.value, {}).values():
        name, measured = line[CLAIM].value.split(" / ")[0], line[TEST].value.split(" of ")[0]
        headlines.setdefault(name, []).append((measured, line[VERDICT].value))
    return [*texts, *(f"{name}: {_whole(parts)}." for name, parts in headlines.items())]


def _whole(parts: Sequence[tuple[str, str]]) -> str:
    """Return what a headline's parts, each a quantity and a verdict, say of it as a whole."""
    verdicts = {verdict for _, verdict in parts}
    if verdicts == {Finding.shows.value}:
        return "passes its tests on this list"
    said = ", ".join(f"{measured} {verdict}" for measured, verdict in parts)
    if Finding.opposite.value in verdicts:
        return f"not reproduced ({said})"
    unheard = verdicts <= {Finding.shows.value, Finding.missing.value}
    return f"{'not measured' if unheard else 'not shown'} ({said})"


def _block(
    kind: ClaimKind, definitions: Sequence[ClaimTable], chosen: Mapping[str, Chosen]
) -> Block:
    return {
        f"{one.name}{number}": _line(claim, one, chosen[one.name])
        for one in definitions
        for number, claim in enumerate(one.claims, 1)
        if claim.kind is kind
    }


def _line(claim: Claim, definition: ClaimTable, chosen: Chosen) -> Line:
    shown, measure = quantity(claim.quantity), figure_of(claim, chosen)
    found = Finding.no_pair if _unmet(claim, chosen) else verdict(measure, claim)
    if found is Finding.few:
        measure = NOTHING  # a figure that decides nothing is not shown
    made_by = [name for name, rows in definition.systems.items() if {*claim.systems} & {*rows}]
    cells = {
        "paper": Cell(claim.paper),
        "here": Cell.of(measure, shown.digits, signed=claim.minus is not None),
        "test": Cell(_test(claim, definition)),
        "utterances": Cell(str(measure.n) if measure.n else "-"),
        "likely reason": Cell(_why(claim, found, chosen)),
        "made by": Cell(", ".join(f"`sst-decode experiment={name}`" for name in made_by)),
    }
    label = f"{claim.headline or definition.title.partition(' (')[0]} / {claim.text}"
    return {CLAIM: Cell(label), VERDICT: Cell(found.value)} | {
        Heading(name, "", name): cell for name, cell in cells.items()
    }


def _why(claim: Claim, found: Finding, chosen: Chosen) -> str:
    """Say what makes ours differ or agree, and where a machine was starved."""
    reason = claim.why if found in DIFFERS else claim.agrees if found is Finding.shows else ""
    timed = quantity(claim.quantity).timed
    starved = [chosen.results[key].starved for key in claim.systems if key in chosen.results]
    return " ".join(filter(None, [reason, *(dict.fromkeys(starved) if timed else ())]))


def _unmet(claim: Claim, chosen: Chosen) -> bool:
    """Return True if a setting of the wanted speed was searched and no run has it."""
    return not chosen.unmet.keys().isdisjoint(claim.systems)


def figure_of(claim: Claim, chosen: Chosen) -> Measure:
    """Return the claim's figure in the unit that tables show; a difference has its p.

    A difference of speeds is of as many processes as the one of its two speeds that has fewer.
    """
    known = {key: chosen.results[key] for key in claim.systems if key in chosen.results}
    if _unmet(claim, chosen) or len(known) < len(claim.systems):
        return NOTHING
    measure = known[claim.of].measure(claim.quantity)
    if claim.minus is not None:
        found = compare(chosen, claim.minus, [claim.of], [claim.quantity])
        both = (measure, known[claim.minus].measure(claim.quantity))
        few = min((one.processes for one in both if one.processes is not None), default=None)
        measure = replace(found.get((claim.of, claim.quantity), NOTHING), processes=few)
    if claim.over is not None:
        return measure.over(known[claim.over].measure(claim.quantity))
    return measure.scaled(quantity(claim.quantity).scale)


def _test(claim: Claim, definition: ClaimTable) -> str:
    """Write the test: `WER % of the draft alone minus the target alone above 5`."""
    rows = definition.rows
    figure = f"{quantity(claim.quantity).heading} of {rows[claim.of].label}"
    figure += f" minus {rows[claim.minus].label}" if claim.minus else ""
    figure += f" over {rows[claim.over].label}" if claim.over else ""
    bounds = {"above": claim.above, "below": claim.below}
    stated = [f"{word} {end:g}" for word, end in bounds.items() if math.isfinite(end)]
    return f"{figure} {' and '.join(stated)}".replace("-", MINUS)
