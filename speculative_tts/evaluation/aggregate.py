"""Aggregate figures over several seeds of one configuration.

Seeds of an utterance are averaged first and utterances are drawn, so intervals are about new
utterances, not of new seeds; `sd` is the sample standard deviation (ddof 1) of the seeds' own
figures.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.efficiency import per_position
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.statistics import standard_deviation
from speculative_tts.evaluation.summary import Bootstrap, interval, read_scores

SEEN: dict[bool | None, tuple[str, ...]] = {True: ("seen",), False: ("unseen",), None: ()}
ALONE = Bootstrap(draws=0)  # the figure without its interval


def aggregate(folders: Sequence[Path], how: Bootstrap | None = None) -> dict[str, Any]:
    """Return the figures of scored run folders that differ in their seed only.

    The result is {"seeds", "n" (utterances), "n_failed", "metrics": {name: {value, low, high, n,
    sd, seeds: {seed: value}}}, "per_position"}. Two folders with the same seed raise ValueError,
    since their utterances would count twice.
    """
    return _aggregate_rows(_read_runs(folders), how or Bootstrap())


def by_speaker(folders: Sequence[Path], how: Bootstrap | None = None) -> dict[str, dict[str, Any]]:
    """Aggregate `all` speakers, those `seen` in training, `unseen` ones, and each one by name.

    A group without a row is absent: a list need not say who was seen.
    """
    parts: dict[str, dict[int, list[ScoreRow]]] = {}
    for seed, rows in _read_runs(folders).items():
        for row in rows:
            for name in ("all", *SEEN[row["seen"]], row.speaker):
                parts.setdefault(name, {}).setdefault(seed, []).append(row)
    return {name: _aggregate_rows(part, how or Bootstrap()) for name, part in parts.items()}


def _read_runs(folders: Sequence[Path]) -> dict[int, list[ScoreRow]]:
    """Read score rows by seed; raise ValueError for a repeated seed."""
    runs: dict[int, list[ScoreRow]] = {}
    for folder in folders:
        rows = read_scores(folder)
        seed = rows[0].seed if rows else 0
        if seed in runs:
            raise ValueError(f"{folder}: seed {seed} occurs twice; give runs of different seeds")
        runs[seed] = rows
    return runs


def _aggregate_rows(runs: dict[int, list[ScoreRow]], how: Bootstrap) -> dict[str, Any]:
    every = [row for rows in runs.values() for row in rows]
    scored = [row for row in every if row.error is None]
    by_seed = {seed: [row for row in rows if row.error is None] for seed, rows in runs.items()}
    metrics = {}
    for name, metric in METRICS.items():
        seeds = {seed: interval(rows, metric, ALONE).value for seed, rows in by_seed.items()}
        values = [value for value in seeds.values() if value is not None]
        metrics[name] = interval(scored, metric, how).written() | {
            "sd": standard_deviation(values),
            "seeds": seeds,
        }
    return {
        "seeds": list(runs),
        "n": len({row.id for row in scored}),
        "n_failed": len(every) - len(scored),
        "metrics": metrics,
        "per_position": per_position(scored),
    }
