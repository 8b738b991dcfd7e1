"""Say where the numbers of a table come from, in a few lines for people.

Reads provenance.json as it finds it: whatever an older or foreign run lacks is left out.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from speculative_tts.provenance import code_text
from speculative_tts.reporting.runs import Run

LONG = ("label", "words")  # options of a judge that its name tells
LIBRARIES = ("torch", "pocketsphinx", "resemblyzer", "speechmos")


def origin(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return lines on commands, models, runs, code, hardware, seeds, dates and judges.

    One line each; lines about which nothing is known are left out.
    """
    unique = list({run.name: run for run in runs}.values())
    lines = {
        "Commands": _distinct(_command(run.provenance.get("argv")) for run in unique),
        "Scored by": _distinct(_command(run.summary.get("argv")) for run in unique),
        "Models": _distinct(text for run in unique for text in _models(run)),
        "Runs": [
            ", ".join(run.name for run in unique if _count(run) == count) + f" ({count})"
            for count in _distinct(map(_count, unique))
        ],
        "Code": _distinct(_code(run.provenance) for run in unique),
        "Hardware": _distinct(_hardware_of(run) for run in unique),
        "Libraries": _distinct(_libraries(run.provenance) for run in unique),
        "Seeds": _distinct(str(run.seed) for run in sorted(unique, key=lambda run: run.seed)),
        "Dates": _span(str(run.provenance.get("date") or "")[:10] for run in unique),
        "Judges": _distinct(text for run in unique for text in _judges(run)),
    }
    return tuple(f"{name}: {', '.join(texts)}" for name, texts in lines.items() if texts)


def made_by(provenance: Mapping[str, Any]) -> str:
    """Return one line on the origin of a result that is no run."""
    texts = (
        _command(provenance.get("argv")),
        _code(provenance),
        _hardware(_mapping(provenance.get("hardware")), None),
        _libraries(provenance),
        str(provenance.get("date") or "")[:10],
    )
    return f"Made by: {', '.join(text for text in texts if text)}"


def mixed(runs: Sequence[Run]) -> list[str]:
    """Return a line when runs that stand side by side were not made alike; else none.

    Their times then differ by more than their methods do.
    """
    kinds = {
        "states of the code": _distinct(_code(run.provenance) for run in runs),
        "kinds of hardware": _distinct(_hardware_of(run) for run in runs),
    }
    texts = [f"{len(d)} {name} ({'; '.join(d)})" for name, d in kinds.items() if len(d) > 1]
    if not texts:
        return []
    return [f"Not made alike: its runs are of {' and '.join(texts)}; their times may differ by it."]


def _command(argv: Any) -> str:
    if not isinstance(argv, list) or not argv:
        return ""
    return f"`{shlex.join([PurePath(argv[0]).name, *map(str, argv[1:])])}`"


def _models(run: Run) -> list[str]:
    """Name the models that a run's tokens come from: target, draft or drafter."""
    system, drafter = (run.config.get(key) for key in ("system", "drafter.name"))
    kinds = {
        "target": system not in {"reference", "codec"},
        "draft": system == "draft" or (system, drafter) == ("speculative", "lm"),
        "drafter": system == "speculative" and drafter != "lm",
    }
    names = {kind: run.config.get(f"{kind}.name") for kind, there in kinds.items() if there}
    return [f"`{kind}={name}`" for kind, name in names.items() if name]


def _count(run: Run) -> str:
    failed = run.summary.get("n_failed") or 0
    return f"{run.summary.get('n', '?')} utterances" + (f", {failed} failed" if failed else "")


def _code(provenance: Mapping[str, Any]) -> str:
    return code_text(_mapping(provenance.get("code")) or provenance)


def _hardware_of(run: Run) -> str:
    hardware = _mapping(run.provenance.get("hardware"))
    return _hardware(hardware, run.config.get("runtime.threads") or hardware.get("threads"))


def _hardware(hardware: Mapping[str, Any], threads: Any) -> str:
    gpus = hardware.get("gpus") or hardware.get("gpu") or []
    parts = [
        *([gpus] if isinstance(gpus, str) else map(str, gpus)),
        str(hardware.get("cpu") or ""),
        str(hardware.get("kernels") or ""),
        _counted(hardware.get("cores"), "core"),
        _counted(threads if hardware else None, "thread"),
    ]
    return " / ".join(part for part in parts if part)


def _counted(number: Any, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}" if number else ""


def _libraries(provenance: Mapping[str, Any]) -> str:
    versions = _mapping(provenance.get("libraries")) or _mapping(provenance.get("versions"))
    return " ".join(f"{name} {versions[name]}" for name in LIBRARIES if versions.get(name))


def _judges(run: Run) -> list[str]:
    """Return every judge with its settings, and how many utterances it heard at most."""
    limits = _mapping(run.summary.get("limits"))
    return [
        f"{judge.get('id')} {judge.get('version')}{_settings(judge, limits.get(f'{metric}_limit'))}"
        for metric, judge in _mapping(run.summary.get("judges")).items()
    ]


def _settings(judge: Mapping[str, Any], limit: int | None) -> str:
    options = _mapping(judge.get("options"))
    texts = [f"{key}={value}" for key, value in options.items() if key not in LONG]
    texts += [f"at most {limit} utterances of a run"] if limit else []
    return f" ({'; '.join(texts)})" if texts else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _distinct(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]


def _span(dates: Iterable[str]) -> list[str]:
    known = sorted({date for date in dates if date})
    return [known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"] if known else []
