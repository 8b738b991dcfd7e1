"""The model card of an exported draft: figures from scored runs, how it was made, how it is used.

Nothing is said that no file says: what was not measured reads so.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from speculative_tts.provenance import command_line, content_hash
from speculative_tts.reporting.checkpoints import INHERITANCE, LOSSES
from speculative_tts.reporting.origin import mixed, origin
from speculative_tts.reporting.quantities import quantity
from speculative_tts.reporting.results import Result, result
from speculative_tts.reporting.runs import Run, find_runs
from speculative_tts.reporting.tables import Block, Cell, Heading, Line, Table, markdown
from speculative_tts.schema.export import ExportConfig
from speculative_tts.training.export import SPECULATORS, VLLM, Exported

UNKNOWN = "not measured"
DRAFTING = ("speculative", "lm")
FIGURES = ("acceptance_length", "tv", "wer", "speedup")
EXACT = (
    "Acceptance by position counts every drafted token, those after a rejection too. Under the "
    "exact rule, whose own TV is 0, that of token 1 is 1 less the TV between the draft's law and "
    "the target's."
)
USE = """## With transformers

```python
from transformers import AutoModelForCausalLM

target = AutoModelForCausalLM.from_pretrained({verifier!r}{trust})
draft = AutoModelForCausalLM.from_pretrained({folder!r}{trust})
settings = draft.generation_config  # the target's sampler, and how much is drafted
tokens = target.generate(
    prompt, assistant_model=draft, generation_config=settings, max_new_tokens=1000
)
```
"""
SERVE = """
## With vLLM

    vllm serve {verifier} --speculative-config "$(cat {folder}/{file})"

Not run where this was written. `{format}` says the same as the library speculators has it, which knows no type of draft that is a model by itself.
"""  # noqa: E501


def card(config: ExportConfig, made: Exported, runs: Sequence[Run]) -> str:
    """README.md of the folder."""
    verifier = config.verifier or config.target.name
    table = Table(
        name="card",
        title=_title(config),
        warning="" if runs else "Nothing was measured: no runs were given.",
        caption=[*(quantity(name).caption for name in ("acceptance_length", "tv")), EXACT],
        notes=[*mixed(runs), *_notes(config, made)],
        origin=origin(runs),
        blocks=[_figures(runs, config.lookahead)],
    )
    words = {"verifier": verifier, "folder": config.out, "file": VLLM, "format": SPECULATORS}
    uses = USE.format(**words, trust=", trust_remote_code=True" if made.biased else "")
    uses += SERVE.format(**words) if any(file.name == VLLM for file in made.files) else ""
    return f"{_front(config)}{markdown(table)}\n{uses}"


def _title(config: ExportConfig) -> str:
    if config.draft.path == config.target.path:
        return f"{config.target.name}, for its drafts"
    return f"{config.draft.name}, a draft of {config.target.name}"


def runs_of(config: ExportConfig) -> list[Run]:
    """Scored runs of the draft with these weights, alone or drafting, and of its target.

    ValueError when there is none.
    """
    if config.runs is None:
        return []
    weights = {name: content_hash(Path(getattr(config, name).path)) for name in ("draft", "target")}
    found = find_runs(Path(config.runs))
    used = [one for one in found.runs if _of(one, "target") == weights["target"]]
    own = [one for one in used if _drafts(one) and _of(one, "draft") == weights["draft"]]
    if not own:
        raise ValueError(
            f"runs={config.runs} holds no scored run of this draft with this target; make one: "
            "sst-decode rule=exact, then sst-eval"
        )
    return [one for one in used if one in own or one.config.get("system") == "target"]


def _drafts(run: Run) -> bool:
    """Does it use its draft? Every run names one."""
    alone = run.config.get("system") == "draft"
    return alone or (run.config.get("system"), run.config.get("drafter.name")) == DRAFTING


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


def _notes(config: ExportConfig, made: Exported) -> Iterator[str]:
    shape = made.config
    yield (
        f"Shape: {shape['num_hidden_layers']} layers of {shape['hidden_size']}, "
        f"{shape['vocab_size']} rows of vocabulary, {made.parameters / 1e6:.2f} million parameters "
        f"({', '.join(made.dtypes)})."
    )
    yield from _training(Path(config.draft.path) / INHERITANCE)
    yield f"Rows of speech: {_ranges(made.rows)}, codes first and then what ends an utterance."
    sampler = ", ".join(f"{key} {value:g}" for key, value in made.sampler.items())
    yield (
        f"Sampler of the target: {sampler}. generation_config.json has what transformers has a "
        "name for."
    )
    yield f"Licence: {config.licence or 'not stated'}."
    yield f"Exported by: `{' '.join(command_line())}`."


def _training(path: Path) -> Iterator[str]:
    """What inheritance.json says."""
    if not path.is_file():
        yield "Training: not recorded."
        return
    made: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    settings = made["settings"]
    losses = [LOSSES[name] for name, weight in settings["losses"].items() if weight]
    yield (
        f"Training: layers {', '.join(map(str, made['layers']))} of {made['target']} "
        f"(SHA-256 {made['target_sha256'][:16]}), {len(made['trained'])} tensors trained for "
        f"{' and '.join(losses)}, {settings['steps']} steps of {settings['batch_size']} sequences."
    )
    yield f"Data: the codes in `{settings['codes']}`."


def _ranges(rows: Sequence[int]) -> str:
    """0 to 2048; of rows that do not follow each other all runs of them."""
    starts = [i for i, row in enumerate(rows) if not i or row != rows[i - 1] + 1]
    ends = [*(i - 1 for i in starts[1:]), len(rows) - 1]
    spans = [f"{rows[a]} to {rows[b]}" for a, b in zip(starts, ends, strict=True)]
    return ", ".join(spans[:5]) + (f" and {len(spans) - 5} more" if len(spans) > 5 else "")


def _front(config: ExportConfig) -> str:
    """What a hub reads."""
    lines = ["library_name: transformers", "pipeline_tag: text-to-speech"]
    lines += [f"license: {json.dumps(config.licence)}"] if config.licence else []
    lines += ["tags: [speculative-decoding, draft-model]"]
    return "\n".join(["---", *lines, "---", "", ""])
