"""Compare the systems that were chosen, and work out what a round costs."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from speculative_tts.evaluation.compare import compare_all
from speculative_tts.evaluation.statistics import Measure
from speculative_tts.reporting.needs import Chosen, RoundCosts, figure
from speculative_tts.reporting.runs import Run


def round_costs(runs: Sequence[Run]) -> RoundCosts:
    """Return the cost of a round by lookahead: acceptance length over measured speedup.

    The geometric mean over all runs given. Rules share the drafting and verifying and differ in the
    few percent of a round that their own work takes, so that one figure serves them all.
    """
    measured: dict[int, list[float]] = {}
    for run in runs:
        length, speedup = (figure([run], name) for name in ("acceptance_length", "speedup"))
        if length and speedup:
            logs = measured.setdefault(run.lookahead, [])
            logs.append(math.log(length / speedup))
    return {k: math.exp(sum(logs) / len(logs)) for k, logs in sorted(measured.items())}


def cost_notes(shown: Collection[str], chosen: Chosen) -> list[str]:
    """Return a note on the round's costs behind speeds by length, if any are shown."""
    used = {run.config.get("lookahead") for run in chosen.runs}
    known = [f"{cost:.3f} at lookahead {k}" for k, cost in chosen.costs.items() if k in used]
    if "speedup_by_length" not in shown or not known:
        return []
    return [f"A round costs, in steps of the target alone: {', '.join(known)}."]


def compare(
    chosen: Chosen, baseline: str, systems: Sequence[str], metrics: Sequence[str]
) -> dict[tuple[str, str], Measure]:
    """Return paired differences by (system, metric), p corrected; none without a baseline."""
    present = [key for key in systems if key in chosen.filled and key != baseline]
    if baseline not in chosen.filled or not present:
        return {}
    folders = {key: [run.folder for run in runs] for key, runs in chosen.filled.items()}
    others = {key: folders[key] for key in present}
    how = chosen.results[baseline].drawn
    return {
        (key, metric): replace(row, p=row.tests.get("holm", row.p))
        for key, rows in compare_all(folders[baseline], others, metrics, how).items()
        for metric, row in rows.items()
    }
