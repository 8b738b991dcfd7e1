"""The model card of an exported draft: figures from scored runs, how it was made and is used.

Nothing is said that no file says: what was not measured reads so.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from speculative_tts.provenance import command_line, content_hash
from speculative_tts.reporting.origin import mixed, origin
from speculative_tts.reporting.quantities import quantity
from speculative_tts.reporting.results import Result, result
from speculative_tts.reporting.runs import Run, find_runs
from speculative_tts.reporting.tables import Block, Cell, Heading, Line, Table, markdown
from speculative_tts.schema.export import ExportConfig
from speculative_tts.training.card_words import Words, draft_words, layer_words
from speculative_tts.training.export import Exported

UNKNOWN = "not measured"
FIGURES = ("acceptance_length", "tv", "wer", "speedup")
EXACT = (
    "Acceptance by position counts every drafted token, those after a rejection too. Under the "
    "exact rule, whose own TV is 0, that of token 1 is 1 less the TV between the draft's law and "
    "the target's."
)


def card(config: ExportConfig, made: Exported, runs: Sequence[Run]) -> str:
    """README.md of the folder."""
    words = (layer_words if made.layer else draft_words)(config, made)
    table = Table(
        name="card",
        title=words.title,
        warning="" if runs else "Nothing was measured: no runs were given.",
        caption=[*(quantity(name).caption for name in ("acceptance_length", "tv")), EXACT],
        notes=[*mixed(runs), *_notes(config, made, words), *_formats(runs)],
        origin=origin(runs),
        blocks=[_figures(runs, config.lookahead)],
    )
    return f"{_front(config, words.tag)}{markdown(table)}\n{words.use}"


def runs_of(config: ExportConfig) -> list[Run]:
    """Scored runs of the draft with these weights, alone or drafting, and of its target.

    ValueError when there is none.
    """
    if config.runs is None:
        return []
    weights = {name: content_hash(Path(getattr(config, name).path)) for name in ("draft", "target")}
    found = find_runs(Path(config.runs))
    used = [one for one in found.runs if _of(one, "target") == weights["target"]]
    own = [one for one in used if _drafting(one) == weights["draft"]]
    if not own:
        raise ValueError(
            f"runs={config.runs} holds no scored run of this draft with this target; make one: "
            "sst-decode rule=exact (drafter=recurrent of a recurrent layer), then sst-eval"
        )
    return [one for one in used if one in own or one.config.get("system") == "target"]


def _drafting(run: Run) -> str | None:
    """Hash of what drafts in a run, or speaks alone. Every run names a draft, few use it."""
    system, drafter = run.config.get("system"), run.config.get("drafter.name")
    if (system, drafter) == ("speculative", "recurrent"):
        return run.provenance.get("recurrent")
    alone = system == "draft"
    return _of(run, "draft") if alone or (system, drafter) == ("speculative", "lm") else None


def _of(run: Run, role: str) -> str | None:
    """Hash of a run's target or draft."""
    weights = run.provenance.get("weights")
    return weights.get(role) if isinstance(weights, dict) else None


def _figures(runs: Sequence[Run], lookahead: int) -> Block:
    """A line a run."""
    results = [result((run,)) for run in runs]
    deepest = max((len(one.per_position.get("acceptance", ())) for one in results), default=0)
    positions = range(1, (deepest or lookahead) + 1)
    names = [*(f"acceptance@{position}" for position in positions), *FIGURES]
    headings = [Heading(quantity(name).heading, "", name) for name in names]
    lines = [
        Line(run.name, run.name, [_cell(one, name) for name in names])
        for run, one in zip(runs, results, strict=True)
    ]
    nothing = [Cell(text=UNKNOWN)] * len(names)
    return Block("Figures", headings, lines or [Line("none", "no run", nothing)])


def _cell(one: Result, name: str) -> Cell:
    how, measure = quantity(name), one.measure(name)
    if measure.value is None:
        return Cell(text=UNKNOWN)
    return Cell(measure.scaled(how.scale), how.digits)


def _notes(config: ExportConfig, made: Exported, words: Words) -> Iterator[str]:
    size = f"{made.parameters / 1e6:.2f} million parameters ({', '.join(made.dtypes)})"
    yield f"Shape: {words.shape}, {made.config['vocab_size']} rows of vocabulary, {size}."
    yield from words.training
    yield f"Rows of speech: {_ranges(made.rows)}, codes first and then what ends an utterance."
    sampler = ", ".join(f"{key} {value:g}" for key, value in made.sampler.items())
    yield f"Sampler of the target: {sampler}. {words.sampler}"
    yield f"Licence: {config.licence or 'not stated'}."
    yield f"Exported by: `{' '.join(command_line())}`."


def _formats(runs: Sequence[Run]) -> Iterator[str]:
    """Of recurrent layers, which draft in a number format of their own."""
    found = {str(run.config["drafter.dtype"]) for run in runs if "drafter.dtype" in run.config}
    if found:
        yield f"Layer and head in these runs (drafter.dtype): {', '.join(sorted(found))}."
    few = {run.config["drafter.codes"] for run in runs if run.config.get("drafter.codes")}
    if few:
        some = ", ".join(map(str, sorted(few)))
        yield f"Of the head in some of these runs (drafter.codes): the {some} most frequent codes."


def _ranges(rows: Sequence[int]) -> str:
    """0 to 2048; of rows that do not follow each other all runs of them."""
    starts = [i for i, row in enumerate(rows) if not i or row != rows[i - 1] + 1]
    ends = [*(i - 1 for i in starts[1:]), len(rows) - 1]
    spans = [f"{rows[a]} to {rows[b]}" for a, b in zip(starts, ends, strict=True)]
    return ", ".join(spans[:5]) + (f" and {len(spans) - 5} more" if len(spans) > 5 else "")


def _front(config: ExportConfig, tag: str) -> str:
    """What a hub reads."""
    lines = ["library_name: transformers", "pipeline_tag: text-to-speech"]
    lines += [f"license: {json.dumps(config.licence)}"] if config.licence else []
    lines += [f"tags: [speculative-decoding, {tag}]"]
    return "\n".join(["---", *lines, "---", "", ""])
