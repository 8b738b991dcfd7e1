"""Describe the drafts and heads behind some runs by what they record, beside a paper's way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from speculative_tts.assets import resolve
from speculative_tts.provenance import content_hash
from speculative_tts.reporting.paper import DraftPolicy, HeadsPolicy
from speculative_tts.reporting.runs import Run
from speculative_tts.typed import read_json

INHERITANCE = "inheritance.json"
HEADS = "heads.json"
USING = ("draft", "speculative")  # systems that use a draft
LOSSES = {
    "ce": "cross entropy",
    "kl": "KL to the target",
    "tv": "total variation",
    "lk": "acceptance (the log of the sum of min(p, q))",
    "group": "acceptance by groups (the log of the sum of min(P_c, Q_c))",
}
LAYER = (
    "With a recurrent layer native rounds draft in 8 bits, torch's in the target's format: other "
    "tokens, so SSD and PCG may err on other words. The exact rule's distribution is the target's "
    "with either. Names of runs tell them apart."
)
Facts = Mapping[str, Any]


def draft_notes(runs: Sequence[Run], policy: DraftPolicy | None) -> list[str]:
    """Return a line for every draft of these runs, beside the paper's `policy` (without one: none).

    Nothing is said of a draft that is gone, has changed since, or is not ours; a file of ours that
    cannot be read is named.
    """
    using = [run for run in runs if policy and run.config.get("system") in USING]

    def line(path: str, made: Facts) -> str:
        assert policy is not None
        settings, layers = made["settings"], made["layers"]
        losses = [name for name, weight in settings["losses"].items() if weight]
        same = settings["train_layers"] == policy.train_layers and tuple(losses) == policy.losses
        return (
            f"The draft ({path}) is layers {', '.join(map(str, layers))} of the target; "
            f"{_trained(settings, len(layers))} for {' and '.join(LOSSES[one] for one in losses)}. "
            f"{'The' if same else 'This is not the'} paper's policy: {policy.text}."
        )

    return list(_lines(using, "draft.path", INHERITANCE, _weights, line))


def layer_notes(runs: Sequence[Run]) -> list[str]:
    """Return a line on number formats where SSD stands beside PCG, both by a recurrent layer."""
    by_layer = [run for run in runs if run.config.get("drafter.name") == "recurrent"]
    rules = {run.config.get("rule.name") for run in by_layer}
    return [LAYER] if {"tolerance", "group"} <= rules else []


def heads_notes(runs: Sequence[Run], policy: HeadsPolicy | None) -> list[str]:
    """Return a line for all multi-token heads, with their target's number of layers of codes."""
    using = [run for run in runs if policy and run.config.get("system") == "multi_token"]
    layers = {str(run.config.get("heads.path")): _layers(run) for run in using}

    def line(path: str, made: Facts) -> str:
        assert policy is not None
        about, own = made["about"], layers[path]
        how = about.get("trained") or _alone(about["settings"])
        weight = about.get("weight")
        texts = [f"The heads ({path}) were trained {how}"]
        texts += [f"a further head's loss counts {weight}"] if weight is not None else []
        text = f"{'; '.join(texts)}. The paper's: {policy.text}."
        if own is not None and own != policy.layers:
            text += f" The target has {own} layers of codes, the paper's {policy.layers}."
        return text

    return list(_lines(using, "heads.path", HEADS, _heads_of, line))


def _lines(
    runs: Sequence[Run],
    key: str,
    file: str,
    recorded: Callable[[Run], str | None],
    line: Callable[[str, Facts], str],
) -> Iterator[str]:
    """Yield a line for each folder that runs name and that is still what they used."""
    for path, run in {str(run.config.get(key)): run for run in runs}.items():
        folder = resolve(path)
        if not (folder / file).is_file() or recorded(run) not in (None, content_hash(folder)):
            continue
        try:
            yield line(path, read_json(folder / file))
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # by another program
            told = str(error) if isinstance(error, ValueError) else f"{folder / file} is not ours"
            yield f"How {path} was made is not known: {told}."


def _weights(run: Run) -> str | None:
    """Return the hash of a run's draft."""
    weights = run.provenance.get("weights")
    return weights.get("draft") if isinstance(weights, Mapping) else None


def _heads_of(run: Run) -> str | None:
    """Return the hash of a run's heads."""
    facts = run.provenance.get("multi_token")
    return facts.get("heads") if isinstance(facts, Mapping) else None


def _layers(run: Run) -> int | None:
    """Return the layers of codes of a run's target, where its folder says so."""
    file = resolve(str(run.config.get("target.path"))) / "config.json"
    found = read_json(file).get("quantizers") if file.is_file() else None
    return found if isinstance(found, int) else None


def _trained(settings: Facts, layers: int) -> str:
    """Say what was trained: `all of them and the head are trained`."""
    count = settings["train_layers"]
    parts = ["all of them" if count >= layers else f"the first {count}"]
    parts += ["the head"] if settings.get("train_head") else []
    parts += ["the embeddings"] if settings.get("train_embeddings") else []
    return f"{' and '.join(parts)} are trained"


def _alone(settings: Facts) -> str:
    """Say how heads were put on a finished target."""
    trunk = "trained too" if settings["train_trunk"] else "frozen"
    return f"on a finished target, its trunk {trunk}, {settings['steps']} steps"
