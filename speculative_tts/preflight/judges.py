"""List the judges that can run here, and the command that installs each of the others."""

from collections.abc import Callable, Sequence
from pathlib import Path

from speculative_tts.assets import configuration, configurations
from speculative_tts.evaluation.judge import Judge
from speculative_tts.evaluation.registry import ENCODERS, JUDGES, RECOGNISERS
from speculative_tts.evaluation.sources import Source
from speculative_tts.preflight.table import CheckedItem
from speculative_tts.schema.evaluate import CheckConfig, EvalConfig, JudgesConfig

Making = Callable[[Source, EvalConfig], Judge]


def presets_of(asked: CheckConfig) -> list[str]:
    """Return the presets whose judges are asked for; empty means all."""
    known = configurations("judges")
    if asked.preset is not None and asked.preset not in known:
        raise ValueError(f"preset={asked.preset} is no preset of judges; use {', '.join(known)}")
    return [paper.name for paper in asked.only] if asked.preset is None else [asked.preset]


def judges(models: str, only: Sequence[str] = ()) -> list[CheckedItem]:
    """Check every judge, or those of some presets, with models in the folder `models`.

    A folder with other contents counts as missing.
    """
    config = EvalConfig(judges=JudgesConfig(models=models))
    nothing = Source(Path(), [], {"label": "none"})
    makers: dict[str, Making] = {
        **{kind.name: maker for kind, maker in RECOGNISERS.items()},
        **{kind.name: maker for kind, maker in ENCODERS.items()},
        **{name: maker for name, maker in JUDGES.items() if name not in ("wer", "similarity")},
    }
    presets = {key: [name for name, used in _presets().items() if key in used] for key in makers}
    return [
        _finding(maker(nothing, config), ", ".join(presets[key]))
        for key, maker in makers.items()
        if not only or any(one in presets[key] for one in only)
    ]


def _presets() -> dict[str, set[str]]:
    """Return the judges of each preset in configs/judges, defaults filled in."""
    plain = EvalConfig()
    return {
        name: {
            made["judges"].get("recogniser", plain.judges.recogniser.name),
            made["judges"].get("encoder", plain.judges.encoder.name),
            *made.get("metrics", plain.metrics),
        }
        for name in configurations("judges")
        for made in [configuration(f"judges/{name}")]
    }


def _finding(judge: Judge, preset: str) -> CheckedItem:
    why = judge.missing()
    if why is None:
        return CheckedItem(judge.id, f"judges={preset}", here=True, state="runs here")
    reason, _, remedy = why.partition("; ")
    state = "no package" if "pip install" in remedy else "no model"
    assert remedy, reason
    return CheckedItem(judge.id, f"judges={preset}", here=False, state=state, remedy=remedy)
