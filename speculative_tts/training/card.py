"""Write the model card of an exported draft: figures of scored runs, its making and its use.

Every statement comes from a file; a figure that was not measured is called "not measured".
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from speculative_tts.assets import configuration, configurations, named
from speculative_tts.evaluation.statistics import NOTHING
from speculative_tts.models.recurrent import DESCRIPTION
from speculative_tts.provenance import command_line, content_hash
from speculative_tts.reporting.checkpoints import INHERITANCE, LOSSES
from speculative_tts.reporting.origin import mixed, origin
from speculative_tts.reporting.quantities import quantity
from speculative_tts.reporting.runs import Run, find_runs
from speculative_tts.reporting.tables import SYSTEM, Block, Cell, Heading, Table, markdown
from speculative_tts.schema.export import ExportConfig
from speculative_tts.training.export import CLASSES, SPECULATORS, VLLM, Exported
from speculative_tts.typed import json_text, read_json

UNKNOWN = "not measured"
FIGURES = ("acceptance_length", "tv", "wer", "speedup")
EXACT = (
    "Acceptance by position counts every drafted token, those after a rejection too. Under the "
    "exact rule, whose own TV is 0, that of token 1 is 1 less the TV between the draft's and "
    "the target's distribution."
)
TEMPLATES = Environment(
    loader=PackageLoader("speculative_tts.training", "cards"),
    undefined=StrictUndefined,
    trim_blocks=True,
)
TEMPLATES.filters["repr"] = repr
TEMPLATES.globals |= {"LOSSES": LOSSES, "VLLM": VLLM, "SPECULATORS": SPECULATORS}


def make_card(config: ExportConfig, exported: Exported, runs: Sequence[Run]) -> str:
    """Return the text of the folder's README.md."""
    words = words_of(config, exported)
    table = Table(
        name="card",
        title=words.title,
        warning="" if runs else "Nothing was measured: no runs were given.",
        caption=[*(quantity(name).caption for name in ("acceptance_length", "tv")), EXACT],
        notes=[*mixed(runs), *_notes(config, exported, words), *_formats(runs)],
        origin=origin(runs),
        blocks={"Figures": _figures(runs, config.lookahead)},
    )
    return f"{_front(config, words.tag)}{markdown(table)}\n{words.use}"


def find_scored_runs(config: ExportConfig) -> list[Run]:
    """Return the scored runs of this draft, alone or drafting, and of its target.

    Raise ValueError when there is no run of the draft.
    """
    if config.runs is None:
        return []
    weights = {name: content_hash(Path(getattr(config, name).path)) for name in ("draft", "target")}
    runs = find_runs(Path(config.runs)).runs
    same_target = [run for run in runs if _weights_hash(run, "target") == weights["target"]]
    own = [run for run in same_target if _drafter_hash(run) == weights["draft"]]
    if not own:
        raise ValueError(
            f"runs={config.runs} holds no scored run of this draft with this target; make one: "
            "sst-decode rule=exact (drafter=recurrent of a recurrent layer), then sst-eval"
        )
    return [run for run in same_target if run in own or run.config.get("system") == "target"]


def _drafter_hash(run: Run) -> str | None:
    """Return the hash of the weights that draft in a run, or that speak alone in it."""
    system, drafter = run.config.get("system"), run.config.get("drafter.name")
    if (system, drafter) == ("speculative", "recurrent"):
        return run.provenance.get("recurrent")
    alone = system == "draft"  # every run names a draft, but few use it
    uses_draft = alone or (system, drafter) == ("speculative", "lm")
    return _weights_hash(run, "draft") if uses_draft else None


def _weights_hash(run: Run, role: str) -> str | None:
    """Return the hash of a run's target or draft; None if the run did not record it."""
    weights = run.provenance.get("weights")
    return weights.get(role) if isinstance(weights, dict) else None


def _figures(runs: Sequence[Run], lookahead: int) -> Block:
    """Return the block of measured figures, one line per run."""
    depths = [run.summary.get("per_position", {}).get("acceptance", ()) for run in runs]
    deepest = max(map(len, depths), default=0)
    positions = range(1, (deepest or lookahead) + 1)
    names = [*(f"acceptance@{position}" for position in positions), *FIGURES]
    headings = {name: Heading(quantity(name).heading, "", name) for name in names}
    made: dict[str, Run | None] = {run.name: run for run in runs} or {"no run": None}
    return {
        label: {SYSTEM: Cell(label)} | {at: _cell(one, name) for name, at in headings.items()}
        for label, one in made.items()
    }


def _cell(one: Run | None, name: str) -> Cell:
    how, measure = quantity(name), one.measure(name) if one else NOTHING
    if measure.value is None:
        return Cell(UNKNOWN)
    return Cell.of(measure.scaled(how.scale), how.digits)


def words_of(config: ExportConfig, exported: Exported) -> Any:
    """Return the texts for a kind of draft: title, shape, training, sampler, use and tag."""
    path, trust = config.draft.path, bool(exported.classes)
    if exported.layer:
        (target,) = exported.config["speculators_config"]["verifier"]["architectures"]
        trust = target not in CLASSES.values()
    file = Path(path) / (DESCRIPTION if exported.layer else INHERITANCE)
    given = {
        "config": config,
        "shape": exported.config,
        "own": path == config.target.path,
        "draft_name": draft_name(config),
        "record": read_json(file) if file.is_file() else {},
        "verifier": config.verifier or config.target.name,
        "trust": ", trust_remote_code=True" if trust else "",
        "served": any(one.name == VLLM for one in exported.files),
    }
    name = "layer" if exported.layer else "draft"
    return TEMPLATES.get_template(f"{name}.md.jinja").make_module(given)


def draft_name(config: ExportConfig) -> str:
    """Return the configured draft's name; the folder's name if `path` was overridden."""
    name, path = config.draft.name, config.draft.path
    known = configuration(f"draft/{name}").get("path") if name in configurations("draft") else None
    return name if known in (None, named(path)) else Path(path).name


def _notes(config: ExportConfig, exported: Exported, words: Any) -> Iterator[str]:
    size = f"{exported.parameters / 1e6:.2f} million parameters ({', '.join(exported.dtypes)})"
    yield f"Shape: {words.shape}, {exported.config['vocab_size']} rows of vocabulary, {size}."
    yield from filter(None, words.training.splitlines())
    yield f"Rows of speech: {_ranges(exported.rows)}, codes first and then what ends an utterance."
    sampler = ", ".join(f"{key} {value:g}" for key, value in exported.sampler.items())
    yield f"Sampler of the target: {sampler}. {words.sampler}"
    yield f"Licence: {config.licence or 'not stated'}."
    yield f"Exported by: `{' '.join(command_line())}`."


def _formats(runs: Sequence[Run]) -> Iterator[str]:
    """Name the number formats and head sizes that recurrent drafters used in the runs."""
    formats = {str(run.config["drafter.dtype"]) for run in runs if "drafter.dtype" in run.config}
    if formats:
        yield f"Layer and head in these runs (drafter.dtype): {', '.join(sorted(formats))}."
    limits = {run.config["drafter.codes"] for run in runs if run.config.get("drafter.codes")}
    if limits:
        some = ", ".join(map(str, sorted(limits)))
        yield f"Of the head in some of these runs (drafter.codes): the {some} most frequent codes."


def _ranges(rows: Sequence[int]) -> str:
    """Return row numbers as text: "0 to 2048", or the first five runs of consecutive rows."""
    starts = [i for i, row in enumerate(rows) if not i or row != rows[i - 1] + 1]
    ends = [*(i - 1 for i in starts[1:]), len(rows) - 1]
    spans = [f"{rows[a]} to {rows[b]}" for a, b in zip(starts, ends, strict=True)]
    return ", ".join(spans[:5]) + (f" and {len(spans) - 5} more" if len(spans) > 5 else "")


def _front(config: ExportConfig, tag: str) -> str:
    """Return the YAML front matter that a model hub reads."""
    lines = ["library_name: transformers", "pipeline_tag: text-to-speech"]
    lines += [f"license: {json_text(config.licence)}"] if config.licence else []
    lines += [f"tags: [speculative-decoding, {tag}]"]
    return "\n".join(["---", *lines, "---", "", ""])
