"""Score sources: run judges, join their columns with counts, write scores and summary.

`scores.jsonl` and `summary.json` are written whole at the end of a source, from measurements that
are cached on disk at once: a killed run continues where it was and ends with the same bytes.
"""

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from speculative_tts.cluster import workers
from speculative_tts.evaluation.cache import MeasurementCache
from speculative_tts.evaluation.judge import Judge, describe, package_version
from speculative_tts.evaluation.measuring import Measurements, Measurer, Wanted
from speculative_tts.evaluation.registry import JUDGES, METRICS
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.sources import Source, find_runs, read_external
from speculative_tts.evaluation.summary import Bootstrap, summarise
from speculative_tts.files import held
from speculative_tts.progress import Stage, silent
from speculative_tts.provenance import command_line
from speculative_tts.records import spread, write_jsonl
from speculative_tts.runs.folder import SCORES, SUMMARY
from speculative_tts.schema.common import Cluster, Device
from speculative_tts.schema.evaluate import EvalConfig
from speculative_tts.typed import write_json

T = TypeVar("T")
NO_WORDS = "its text has no words that the recogniser's normaliser keeps"


@dataclass(frozen=True)
class ScoringPlan:
    """A source, the judges that will measure it, and the metrics left out with the reason."""

    source: Source
    judges: dict[str, Judge]
    skipped: dict[str, str]
    limits: dict[str, int | None] = dataclasses.field(default_factory=dict)

    def samples(self, metric: str) -> list[ScoreRow]:
        """Return the samples for a metric's judge: all, or evenly spread ones (`dnsmos_limit`)."""
        return spread(self.source.samples, self.limits.get(metric))

    def restricted_to(self, metrics: Collection[str]) -> "ScoringPlan":
        """Return the plan with the judges of these metrics alone."""

        def some(by_metric: dict[str, T]) -> dict[str, T]:
            return {name: one for name, one in by_metric.items() if name in metrics}

        return ScoringPlan(self.source, some(self.judges), some(self.skipped), some(self.limits))

    def wanted(self) -> list[Wanted]:
        """Return every judge with every file it must measure."""
        return [
            (judge, path)
            for metric, judge in self.judges.items()
            for sample in self.samples(metric)
            for path in judge.files(sample)
        ]


@dataclass(frozen=True)
class Scored:
    """A scored source and its summary as written."""

    folder: Path
    label: str
    summary: dict[str, Any]


def plan(source: Source, config: EvalConfig) -> ScoringPlan:
    """Choose a source's installed judges; raise ValueError for an unknown metric."""
    judges, skipped = {}, {}
    for metric in config.metrics:
        if metric not in JUDGES:
            raise ValueError(
                f"metric {metric} is unknown; use {', '.join(JUDGES)} (cer is with wer)"
            )
        judge = JUDGES[metric](source, config)
        reason = source.silent or judge.missing()
        if reason is None:
            judges[metric] = judge
        else:
            skipped[metric] = reason
    limits = {metric: getattr(config, f"{metric}_limit", None) for metric in judges}
    return ScoringPlan(source, judges, skipped, limits)


def plans(config: EvalConfig) -> list[ScoringPlan]:
    """Plan all sources of a configuration: runs, or the list of another system's audio."""
    if config.list is not None:
        out = Path(config.out) if config.out else None
        read = read_external(Path(config.list), out, config.limit)
        return [plan(source, config) for source in read]
    return [plan(source, config) for source in find_runs(Path(config.runs), config.limit)]


def cache_folder(config: EvalConfig, planned: Sequence[ScoringPlan]) -> Path:
    """Return `cache`, or the default: `.scores` beside the runs or in a list's scores."""
    if config.cache is not None:
        return Path(config.cache)
    folder = planned[0].source.folder
    alone = config.list is not None and len(planned) == 1
    return (folder if alone else folder.parent) / ".scores"


def score(
    planned: Sequence[ScoringPlan],
    config: EvalConfig,
    stage: Stage = silent,
) -> Iterator[Scored]:
    """Score plans one after the other; `stage` shows how many files have been measured."""
    how = Bootstrap(config.draws, config.unit, config.seed)
    folder = cache_folder(config, planned)
    with (
        held(folder, "cache=<other folder>"),
        MeasurementCache(folder) as cache,
        workers(config.cluster, config.workers) as many,
    ):
        measurer = Measurer(cache, many, batch(config))
        tasks = measurer.pending(pair for one in planned for pair in one.wanted())
        measured, left = measurer.measure(tasks.values()), set(tasks)
        with stage("listening", len(tasks)) as advance:
            for one in planned:
                wanted = one.wanted()
                missing = left & measurer.pending(wanted).keys()
                while missing:
                    left.discard(sha256 := next(measured))
                    missing.discard(sha256)
                    advance(1)
                yield _write(one, measurer.measurements(wanted), how, config)


def batch(config: EvalConfig) -> int:
    """Return the number of files that a worker takes at once."""
    if config.judges.batch is not None:
        return config.judges.batch
    shared = config.judges.device is Device.cuda or config.cluster.name is Cluster.ray
    return 16 if shared else 1


def join(one: ScoringPlan, measurements: Measurements) -> list[ScoreRow]:
    """Return a source's rows, in its order, from the decoder's counts and the judges' columns."""
    columns: dict[str, dict[str, Any]] = {}
    for metric, judge in one.judges.items():
        samples = one.samples(metric)
        prompts = {one.prompt_audio or "" for one in samples} - {one.audio for one in samples}
        silent = {path for path in prompts if "silent_audio" in measurements.flags(path)}
        measured = measurements.values(judge).items()
        scored = judge.score(samples, {path: x for path, x in measured if path not in silent})
        for sample, values in zip(samples, scored, strict=True):
            merged = columns.setdefault(sample.id, {"flags": []})
            flags = merged["flags"] + values.pop("flags", [])
            merged.update(values, flags=flags)
    return [_row(sample, columns.get(sample.id, {}), measurements) for sample in one.source.samples]


def _row(sample: ScoreRow, columns: dict[str, Any], measurements: Measurements) -> ScoreRow:
    if not Path(sample.audio).is_file():
        error: str | None = f"audio file {sample.audio} not found"
    else:
        error = measurements.errors.get(sample.audio)
    if error is not None:
        return dataclasses.replace(sample, error=error)
    flags = sample.flags + measurements.flags(sample.audio) + columns.pop("flags", [])
    if sample.prompt_audio in measurements.errors:
        flags.append("prompt_unreadable")
    return dataclasses.replace(sample, flags=flags, columns={**sample.columns, **columns})


def unmeasured(
    one: ScoringPlan, rows: Sequence[ScoreRow], measurements: Measurements
) -> dict[str, dict[str, str]]:
    """Return by metric and utterance why a figure that was asked for is missing.

    Utterances that could not be scored, and empty audio, are results and not listed.
    """
    by_id = {row.id: row for row in rows}
    reasons: dict[str, dict[str, str]] = {}
    for judged, judge in one.judges.items():
        own = [metric for metric in METRICS.values() if metric.judge == judged]
        for sample in one.samples(judged):
            row = by_id[sample.id]
            has_audio = row.error is None and "empty_audio" not in row.flags
            if own and has_audio and all(None in metric.columns(row) for metric in own):
                why = NO_WORDS if judged == "wer" else _reason(sample, judge, measurements)
                reasons.setdefault(judged, {})[sample.id] = why
    return reasons


def _reason(sample: ScoreRow, judge: Judge, measurements: Measurements) -> str:
    measured = measurements.by_judge.get(judge, {})
    for path in judge.files(sample):
        one = measured.get(path)
        if one and one.value is None and "empty_audio" not in one.flags:
            return f"the judge gave no finite number for {path}"
    if not sample.prompt_audio:
        return "the list names no prompt_audio"
    return measurements.errors.get(sample.prompt_audio, f"{sample.prompt_audio} holds no sound")


def _write(
    one: ScoringPlan, measurements: Measurements, how: Bootstrap, config: EvalConfig
) -> Scored:
    rows = join(one, measurements)
    judges = {metric: describe(judge) for metric, judge in one.judges.items()}
    if "wer" in judges:
        judges["wer"]["jiwer"] = package_version("jiwer")
    limits = {f"{metric}_limit": limit for metric, limit in one.limits.items() if limit}
    summary = {
        "run": one.source.run,
        "argv": command_line(),
        "preset": config.judges.name,
        "judges": judges,
        "skipped": one.skipped,
        "unmeasured": unmeasured(one, rows, measurements),
        "limits": {"limit": config.limit} | limits,
    }
    summary |= summarise(rows, how)
    write_jsonl(one.source.folder / SCORES, (row.inside(one.source.folder).flat() for row in rows))
    write_json(one.source.folder / SUMMARY, summary)
    return Scored(one.source.folder, one.source.label, summary)
