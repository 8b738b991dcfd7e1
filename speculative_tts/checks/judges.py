"""Which judges can run here, and the one command that makes each of the others run."""

from collections.abc import Callable, Sequence
from pathlib import Path

from speculative_tts.checks.table import Finding
from speculative_tts.evaluation.judge import Judge
from speculative_tts.evaluation.registry import ENCODERS, JUDGES, RECOGNISERS
from speculative_tts.evaluation.sources import Source
from speculative_tts.schema import Encoder, EvalConfig, JudgesConfig, Paper, Recogniser

Making = Callable[[Source, EvalConfig], Judge]
PRESETS: dict[Recogniser | Encoder | str, str] = {  # configs/judges says the same
    Recogniser.pocketsphinx: "offline",
    Recogniser.whisper: "ssd",
    Recogniser.hubert: "pcg",
    Recogniser.conformer: "mtp",
    Encoder.ge2e: "offline",
    Encoder.eres2net: "ssd",
    Encoder.wavlm: "pcg",
    Encoder.xvector: "mtp",
    "dnsmos": "offline, ssd",
    "utmos": "mtp",
}


def judges(models: str, only: Sequence[Paper] = ()) -> list[Finding]:
    """Every judge or those of some papers, models sought below `models`.

    A wrong folder is a missing one.
    """
    config = EvalConfig(judges=JudgesConfig(models=models))
    nothing = Source(Path(), [], {"label": "none"})
    makers: list[tuple[Recogniser | Encoder | str, Making]] = [
        *RECOGNISERS.items(),
        *ENCODERS.items(),
        *((name, JUDGES[name]) for name in ("dnsmos", "utmos")),
    ]
    return [
        _finding(maker(nothing, config), PRESETS[key])
        for key, maker in makers
        if not only or any(one.name in PRESETS[key] for one in only)
    ]


def _finding(judge: Judge, preset: str) -> Finding:
    why = judge.missing()
    if why is None:
        return Finding(judge.id, f"judges={preset}", here=True, state="runs here")
    reason, _, remedy = why.partition("; ")
    state = "no package" if "pip install" in remedy else "no model"
    assert remedy, reason
    return Finding(judge.id, f"judges={preset}", here=False, state=state, remedy=remedy)
