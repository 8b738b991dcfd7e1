"""Scores decode runs, or any folder of audio given a list: words, voice, naturalness, speed.

Judges run offline and in parallel; what was heard once is kept, so a killed run continues and a
second one is quick. Writes scores.jsonl (an utterance a row) and summary.json (figures with 95 %
intervals) into each run folder.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speculative_tts.commands import app
from speculative_tts.evaluation.compare import Comparison, compare_all
from speculative_tts.evaluation.metric import Metric
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import NO_CODES
from speculative_tts.evaluation.scoring import Scored, ScoringPlan, plans, score
from speculative_tts.evaluation.summary import Bootstrap
from speculative_tts.evaluation.wer import AVERAGES
from speculative_tts.progress import bar
from speculative_tts.runs.folder import SCORES, SUMMARY
from speculative_tts.schema.evaluate import EvalConfig
from speculative_tts.texts import aligned, first, some, with_interval
from speculative_tts.tracking import track_figures
from speculative_tts.typed import read_json, write_json

STRICT_FAILURE = 3
NOTHING_SCORED = 1


def run(config: EvalConfig) -> int:
    """Score, compare with the baseline if one is named, print; return the exit code.

    0 done; 1 a source had no utterance that could be scored, or a judge that was asked for is not
    installed; 3 with `strict`, when a judge is not installed (nothing is scored then) or a figure
    of an utterance is lacking.
    """
    planned = _planned(config)
    missing = list(dict.fromkeys(why for one in planned for why in one.skipped.values()))
    for line in [*first([note for one in planned for note in one.source.notes]), *missing]:
        print(line, file=sys.stderr)
    if missing and config.strict:
        return STRICT_FAILURE
    if losing := [one.source.label for one in planned if _had(one)]:
        print(
            f"nothing was scored: {some(losing)} would lose figures that are there; install "
            "what is missing, or leave its metrics out (metrics=[...])",
            file=sys.stderr,
        )
        return NOTHING_SCORED
    scored = _score(planned, config)
    print(table([one.summary for one in scored]))
    for one in scored:
        track_figures("eval", config, one.folder, one.summary["metrics"])
    if config.baseline is not None:
        _compare(Path(config.baseline), scored, config)
    return NOTHING_SCORED if missing else _exit_code(scored, config.strict)


def _had(plan: ScoringPlan) -> bool:
    """Return True if the run has figures of a judge that is not installed now."""
    file = plan.source.folder / SUMMARY
    if plan.source.silent or not plan.skipped or not file.is_file():
        return False
    had = read_json(file, "delete it").get("judges", {})
    return not plan.skipped.keys().isdisjoint(had)


def _planned(config: EvalConfig) -> list[ScoringPlan]:
    """Plan the scoring; raise ValueError now for mistakes that would fail after hours of work."""
    baseline = None if config.baseline is None else Path(config.baseline)
    if baseline is not None and not baseline.is_dir():
        raise ValueError(f"baseline={baseline} is not a folder; give that of a run")
    if config.out is not None:
        app.require_writable(config.out)
    planned = plans(config) if config.paper is None else _shown(plans(config), config.paper)
    for one in planned:
        app.require_writable(one.source.folder, "runs" if config.list is None else "out")
    scored = baseline and baseline.resolve() in [one.source.folder.resolve() for one in planned]
    if baseline is not None and not scored and not (baseline / SCORES).is_file():
        runs = sorted(file.parent.name for file in baseline.glob(f"*/{SCORES}"))
        if runs:
            raise ValueError(
                f"baseline={baseline} is a folder of runs; give one of them: {some(runs)}"
            )
        raise ValueError(f"baseline={baseline} has no {SCORES}; run sst-eval runs={baseline} first")
    return planned


def _shown(planned: Sequence[ScoringPlan], paper: str) -> list[ScoringPlan]:
    """Drop the judges whose figures the paper does not show for a run."""
    from speculative_tts.reporting.runs import unscored
    from speculative_tts.reporting.shown import judges_shown

    shown = judges_shown(paper, [unscored(one.source.folder) for one in planned])
    return [
        one.restricted_to(shown.get(one.source.folder, {*one.judges, *one.skipped}))
        for one in planned
    ]


def table(summaries: Sequence[dict[str, Any]]) -> str:
    """Tabulate the figures of several runs, with 95 % intervals; `-` if not measured."""
    heard = [s["judges"]["wer"]["options"] for s in summaries if "wer" in s["judges"]]
    labels = sorted({f"{_mark(options)}WER, CER: {options['label']}" for options in heard})
    shown = {
        name: metric
        for name, metric in METRICS.items()
        if metric.listed and any(s["metrics"][name]["value"] is not None for s in summaries)
    }
    rows = [["run", "n", *(metric.heading for metric in shown.values())]]
    for summary in summaries:
        mark = _mark(summary["judges"].get("wer", {}).get("options", {}))
        cells = [
            _cell(summary["metrics"][name], metric, mark if metric.judge == "wer" else "")
            for name, metric in shown.items()
        ]
        rows.append([str(summary["run"]["label"]), _count(summary), *cells])
    return "\n".join([*aligned(rows), *labels, *([AVERAGES] if heard else [])])


def _count(summary: dict[str, Any]) -> str:
    """Format the number of utterances, and of those not scored or without speech."""
    odd = {"failed": summary["n_failed"], "without speech": summary["flags"].get(NO_CODES)}
    told = ", ".join(f"{number} {what}" for what, number in odd.items() if number)
    return f"{summary['n']} ({told})" if told else str(summary["n"])


def _mark(options: dict[str, Any]) -> str:
    """Return `~` if rates are by the general language model, not comparable with a grammar's."""
    return "~" if options.get("grammar") == "general" else ""


def _score(planned: Sequence[ScoringPlan], config: EvalConfig) -> list[Scored]:
    scored = list(score(planned, config, bar))
    for one in scored:
        if failed := [f"{key} ({why})" for key, why in one.summary["failed"].items()]:
            print(
                f"{one.label}: {len(failed)} of {len(failed) + one.summary['n']} utterances not "
                f"scored: {some(failed)}",
                file=sys.stderr,
            )
        for metric, lacking in one.summary["unmeasured"].items():
            key, why = next(iter(lacking.items()))
            print(
                f"{one.label}: {metric} of {len(lacking)} of {one.summary['n']} utterances could "
                f"not be measured, the first {key}: {why}",
                file=sys.stderr,
            )
    return scored


def _compare(baseline: Path, scored: Sequence[Scored], config: EvalConfig) -> None:
    """Compare every scored run with the baseline by paired tests; write comparison.json."""
    others = {
        str(one.folder): [one.folder]
        for one in scored
        if one.folder.resolve() != baseline.resolve()
    }
    how = Bootstrap(config.draws, config.unit, config.seed)
    labels = {str(one.folder): one.label for one in scored}
    for folder, comparisons in compare_all([baseline], others, how=how).items():
        rows = {name: {"metric": name} | one.written() for name, one in comparisons.items()}
        write_json(Path(folder) / "comparison.json", {"baseline": str(baseline), "metrics": rows})
        print(f"\n{labels[folder]} against {baseline.name}, paired over utterances:")
        print("\n".join(aligned(_difference_rows(comparisons))))


def _difference_rows(comparisons: dict[str, Comparison]) -> list[list[str]]:
    rows = [["metric", "baseline", "run", "difference", "p", "p (Holm)", "n"]]
    for name, one in comparisons.items():
        if one.value is not None:
            apart = with_interval((one.value, one.low, one.high), "+.3f")
            both = (f"{one.a:.3f}", f"{one.b:.3f}", apart)
            rows.append([name, *both, _p(one.p), _p(one.tests.get("holm")), str(one.n)])
    return rows


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _cell(figure: dict[str, Any], metric: Metric, mark: str) -> str:
    numbers = [figure[key] for key in ("value", "low", "high")]
    if numbers[0] is None:
        return "-"
    return mark + with_interval(numbers, f".{metric.digits}f", metric.scale)


def _exit_code(scored: Sequence[Scored], strict: bool) -> int:
    if any(one.summary["n"] == 0 for one in scored):
        return NOTHING_SCORED
    lacking = any(one.summary["n_failed"] or one.summary["unmeasured"] for one in scored)
    return STRICT_FAILURE if strict and lacking else 0


main = app.command(
    "eval",
    EvalConfig,
    run,
    examples=(
        "sst-eval                                  # every run in runs/",
        "sst-eval runs=runs/ssd-1a2b3c4d strict=true",
        "sst-eval judges=pcg judges.models=models/judges judges.device=cuda workers=1",
        "sst-eval cluster=ray cluster.address=auto judges=ssd cluster.num_gpus=1",
        "sst-eval list=other/list.jsonl out=other/scores   # audio of another system",
        "sst-eval baseline=runs/target-5e6f7a8b unit=speaker",
    ),
    first=(
        *("runs", "list", "out", "judges", "metrics"),
        *("limit", "baseline", "workers", "strict", "seed"),
    ),
    shorthand=(*app.CLUSTER, ("weights", "judges.weights")),
)

if __name__ == "__main__":
    sys.exit(main())
