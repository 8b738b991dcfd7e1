"""How the drafts behind some runs were made, as their checkpoints say, beside a paper's way."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from speculative_tts.assets import resolve
from speculative_tts.provenance import content_hash
from speculative_tts.reporting.paper import DraftPolicy
from speculative_tts.reporting.runs import Run

INHERITANCE = "inheritance.json"
USING = ("draft", "speculative")  # systems that use a draft
LOSSES = {
    "ce": "cross entropy",
    "kl": "KL to the target",
    "tv": "total variation",
    "lk": "acceptance (the log of the sum of min(p, q))",
}


def draft_notes(runs: Sequence[Run], policy: DraftPolicy | None) -> list[str]:
    """A line for every draft of these runs; `policy` is the paper's, without one there is no line.

    Nothing is said of a draft that is gone, has changed since, or does not say how it was made.
    """
    if policy is None:
        return []
    drafts = {
        str(run.config.get("draft.path")): run for run in runs if run.config.get("system") in USING
    }
    return [line for path, run in drafts.items() for line in _note(path, run, policy)]


def _note(path: str, run: Run, policy: DraftPolicy) -> Iterable[str]:
    try:
        folder = resolve(path)
        made = json.loads((folder / INHERITANCE).read_text(encoding="utf-8"))
        settings, layers = made["settings"], made["layers"]
        losses = [name for name, weight in settings["losses"].items() if weight]
        goals = " and ".join(LOSSES[name] for name in losses)
        trained = _trained(settings, len(layers))
    except (OSError, ValueError, KeyError, TypeError):
        return
    weights = run.provenance.get("weights")
    if isinstance(weights, Mapping) and weights.get("draft") != content_hash(folder):
        return
    same = settings["train_layers"] == policy.train_layers and tuple(losses) == policy.losses
    yield (
        f"The draft ({path}) is layers {', '.join(map(str, layers))} of the target; {trained} for "
        f"{goals}. {'The' if same else 'This is not the'} paper's policy: {policy.text}."
    )


def _trained(settings: Mapping[str, Any], layers: int) -> str:
    """What was trained: `all of them and the head are trained`."""
    count = settings["train_layers"]
    parts = ["all of them" if count >= layers else f"the first {count}"]
    parts += ["the head"] if settings.get("train_head") else []
    parts += ["the embeddings"] if settings.get("train_embeddings") else []
    return f"{' and '.join(parts)} are trained"
