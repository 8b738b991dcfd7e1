"""Compare the systems that were chosen."""

from collections.abc import Sequence
from dataclasses import replace

from speculative_tts.evaluation.compare import compare_all
from speculative_tts.evaluation.statistics import Measure
from speculative_tts.reporting.needs import Chosen


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
