"""Fill a table that has a line for each speaker from the runs at hand.

First come all speakers together, then those that were trained on and the others, then each one, the
best by the first column first. Figures are made of the runs' own scores.
"""

from collections.abc import Mapping, Sequence

from speculative_tts.evaluation.aggregate import by_speaker
from speculative_tts.evaluation.statistics import NOTHING, Measure
from speculative_tts.reporting.captions import around, caption, judge_name
from speculative_tts.reporting.definitions import Column, SpeakerTable
from speculative_tts.reporting.needs import Chosen
from speculative_tts.reporting.quantities import quantity
from speculative_tts.reporting.runs import Run
from speculative_tts.reporting.tables import SYSTEM, Block, Cell, Heading, Table

GROUPS = {  # as `aggregate.by_speaker` calls them
    "all": "All speakers",
    "seen": "Speakers of the training",
    "unseen": "Other speakers",
}
Figures = Mapping[str, Mapping[str, Run]]  # by system, then group or speaker


def fill_speakers(definition: SpeakerTable, chosen: Chosen) -> Table:
    """Return the table made of the runs of its systems."""
    figures = {key: _by_speaker(one) for key, one in chosen.results.items()}
    judged = list(chosen.results.values())
    text = caption([Column(name) for _, name in definition.columns], judged, "interval")
    notes = [*definition.notes, *chosen.notes]
    block = _block(definition, figures, _headings(definition, judged))
    ruled = [key for key in block if key not in GROUPS][:1]
    blocks = {"By speaker": block}
    return Table(**around(definition, chosen, text, notes), blocks=blocks, ruled=ruled)


def _by_speaker(whole: Run) -> dict[str, Run]:
    found = by_speaker([run.folder for run in whole.seeds], whole.drawn)
    return {name: whole.with_figures(one) for name, one in found.items()}


def _headings(definition: SpeakerTable, judged: Sequence[Run]) -> list[Heading]:
    def heading(key: str, name: str) -> Heading:
        judge = judge_name(name, judged)
        shown = quantity(name).heading
        return Heading(
            definition.rows[key].label, f"{shown} ({judge})" if judge else shown, f"{key}_{name}"
        )

    return [heading(key, name) for key, name in definition.columns]


def _block(definition: SpeakerTable, figures: Figures, headings: Sequence[Heading]) -> Block:
    def measures(label: str) -> list[Measure]:
        return [
            figures[key][label].measure(name) if label in figures.get(key, {}) else NOTHING
            for key, name in definition.columns
        ]

    rows = {name: measures(name) for one in figures.values() for name in one}
    groups = [name for name in GROUPS if name in rows]
    first = {name: row[0].value for name, row in rows.items() if name not in GROUPS}
    speakers = sorted(first, key=lambda name: (first[name] is None, first[name] or 0.0))
    shown = [quantity(name) for _, name in definition.columns]
    return {
        name: {SYSTEM: Cell(GROUPS.get(name, name))}
        | {
            heading: Cell.of(measure.scaled(how.scale), how.digits)
            for heading, measure, how in zip(headings, rows[name], shown, strict=True)
        }
        for name in [*groups, *speakers]
    }
