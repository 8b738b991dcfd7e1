"""Write what a reader must know to read a table: about its quantities, its judges and its runs."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from speculative_tts.evaluation.metric import Better
from speculative_tts.evaluation.statistics import LEAST
from speculative_tts.reporting.definitions import (
    Column,
    FigureDefinition,
    SpeakerTable,
    TableDefinition,
)
from speculative_tts.reporting.needs import Chosen
from speculative_tts.reporting.origin import mixed, origin
from speculative_tts.reporting.quantities import quantities, quantity, whole
from speculative_tts.reporting.runs import Run
from speculative_tts.runs.folder import SCORES

SHIPPED_LISTS = ("tiny", "sentences")  # so begin the names of the lists that Flite spoke
SYNTHETIC = "Recordings and speakers are synthetic: Flite voices."

SEEDS_SPREAD = "Figures are mean ± standard deviation over seeds."
ONE_PROCESS = (
    "Times and speedups of one process have an interval over its utterances alone: another process "
    "may differ by 0.1 and more, so they decide nothing."
)
PAIRED_TESTS = (
    "Δ columns are paired differences with two-sided bootstrap p, corrected by Holm's method for "
    "the systems that are compared in one part of a table."
)
TIMED_APART = (
    "Speeds that are subtracted or divided were timed in processes of their own, minutes apart: "
    "what that adds (results/speeds/hours) is in no interval. The p of their difference is of "
    "Student's t over processes and utterances."
)
SEED_TESTS = (
    "Tests over seeds take each seed's corpus figure, two-sided and not corrected: Welch's t, and "
    "the paired t over seeds that both have."
)


def judge_names(name: str, results: Iterable[Run]) -> list[str]:
    """Name every judge of a quantity once: several where runs differ, none for nobody."""
    shown = quantity(name)
    ids = [one.judge(shown.judge) for one in results] if shown.judge else []
    return list(dict.fromkeys(shown.judges.get(one, one) for one in ids if one))


def judge_name(name: str, results: Iterable[Run]) -> str:
    """Name the judges of a quantity in one text, for a heading."""
    return " / ".join(judge_names(name, results))


def around(
    definition: TableDefinition | SpeakerTable | FigureDefinition,
    chosen: Chosen,
    caption: Sequence[str],
    notes: Sequence[str],
) -> dict[str, Any]:
    """Return what is printed around a table or figure, as fields of `tables.Printed`."""
    return {
        "name": definition.name,
        "title": definition.title + of_what(chosen.runs),
        "caption": caption,
        "notes": [*mixed(chosen.runs), *notes],
        "origin": origin(chosen.runs),
        "missing": [*map(str, chosen.missing)],
        "warning": few(list(chosen.results.values())),
        "speech": synthetic(chosen.runs),
    }


def synthetic(runs: Iterable[Run]) -> str:
    """Say that speech is synthetic where all runs are of lists that Flite spoke."""
    lists = {str(run.config.get("data.name")) for run in runs}
    return SYNTHETIC if lists and all(one.startswith(SHIPPED_LISTS) for one in lists) else ""


def caption(columns: Sequence[Column], results: Sequence[Run], spread: str) -> list[str]:
    """Return sentences about utterances, intervals, tests and the quantities shown."""
    shown = {column.quantity for column in columns}
    several = len({run.seed for one in results for run in one.seeds}) > 1
    return [
        *_utterances(shown, results),
        SEEDS_SPREAD if spread == "sd" and several else f"Brackets: {intervals(shown, results)}",
        *([PAIRED_TESTS] if any(column.against for column in columns) else []),
        *([TIMED_APART] if any(map(_apart, columns)) else []),
        *([SEED_TESTS] if any(column.test != "bootstrap" for column in columns) else []),
        *definitions(shown, results),
    ]


def _apart(column: Column) -> bool:
    """Return True for a column that sets the speeds of two systems against each other."""
    return quantity(column.quantity).timed and (column.against or column.over) is not None


def definitions(shown: Collection[str], results: Sequence[Run]) -> list[str]:
    """Explain the quantities: their meaning, which way is better, remarks on their judges."""
    bases = set(map(whole, shown))
    used = [one for name, one in quantities().items() if name in bases]
    remarks = [
        one.remarks.get(result.judge(one.judge)) for one in used if one.judge for result in results
    ]
    texts = [*(one.caption for one in used), _directions(bases), *remarks]
    return [text for text in dict.fromkeys(texts) if text]


def _directions(shown: Collection[str]) -> str:
    """Name the figures that are better the lower, and those that are better the higher."""
    known = [(one.better, one.heading) for name, one in quantities().items() if name in shown]
    lists = {way: ", ".join(text for better, text in known if better is way) for way in Better}
    texts = [f"{way.value} {names}" for way, names in lists.items() if names]
    return f"Better: {'; '.join(texts)}." if texts else ""


def few(results: Sequence[Run]) -> str:
    """Return the warning above a table of too few utterances; empty where there are enough."""
    counts = [count for one in results if (count := _count(one))]
    if not counts or max(counts) >= LEAST:
        return ""
    return (
        f"Built on {_range(counts)} utterance{'s' if max(counts) > 1 else ''}, fewer than {LEAST}: "
        "a trial, no result. It cannot tell systems apart; figures without an interval have their "
        "n beside them."
    )


def _count(one: Run) -> int:
    """Count a system's utterances: those whose words were heard, else those that were scored."""
    return int(one.measure("wer").n or one.seeds[0].summary.get("n") or 0)


def _utterances(shown: Collection[str], results: Sequence[Run]) -> list[str]:
    """Say how many utterances there were, and which judges heard fewer."""
    counts = _range(map(_count, results))
    if not counts:
        return []
    text = f"{counts} utterances"
    firsts = [one.seeds[0].rows(SCORES).values() for one in results]  # of one seed each
    words = _range(sum(row.get("words") or 0 for row in rows) for rows in firsts)
    if words and "wer" in shown:
        text += f" ({words} words)"
    for name, one in quantities().items():
        apart = name == "tv" or one.timed or one.judge not in (None, "wer")
        if name in shown and apart:
            fewer = _range(result.measure(name).n for result in results)
            text += f", {one.heading} on {fewer}" if fewer and fewer != counts else ""
    text = f"{text}; {_seeds(results)}"
    if told := sampler([run for one in results for run in one.seeds]):
        text += f"; {told}"
    text += "."
    runs = {run.name: run.summary for one in results for run in one.seeds}.values()
    ended = [run for run in runs if run.get("flags", {}).get("no_codes")]
    told = ", ".join(f"{run['flags']['no_codes']} of {run['run']['label']}" for run in ended)
    return [text, f"Ended at once, heard as 0.1 s of silence: {told}."] if told else [text]


def _seeds(results: Sequence[Run]) -> str:
    """Name the seeds, and how many rows have fewer of them than others."""

    def named(seeds: Collection[int]) -> str:
        return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, sorted(seeds)))}"

    rows = Counter(
        frozenset(run.seed for run in one.seeds) for one in results if sampler_text(one.config)
    )
    every = frozenset(run.seed for one in results for run in one.seeds)
    fewer = [f"{count} rows: {named(one)} alone" for one, count in rows.items() if one < every]
    return named(every) + (f" ({', '.join(fewer)}, see Runs)" if fewer else "")


def of_what(runs: Sequence[Run]) -> str:
    """Name target, list and sampler where all runs share them: pages of one title differ by it."""
    facts = {"": "target.name", "list ": "data.name"}
    told = [
        f"{said}{names.pop()}"
        for said, key in facts.items()
        if len(names := {run.config.get(key) for run in runs} - {None}) == 1
    ]
    told += filter(None, [sampler(runs)])
    return f" ({', '.join(told)})" if told else ""


def sampler(runs: Iterable[Run]) -> str:
    """Say how tokens were drawn, if all runs drew alike."""
    told = {sampler_text(run.config) for run in runs} - {""}
    return told.pop() if len(told) == 1 else ""


def sampler_text(config: Mapping[str, Any]) -> str:
    """Write a run's sampler; empty where nothing was drawn."""
    names = ("temperature", "top_k", "top_p", "ras_window", "repetition_penalty")
    heat, top_k, top_p, window, penalty = (config.get(f"sampling.{name}") for name in names)
    if heat is None:
        return ""
    parts = [f"temperature {heat:g}", f"top k {top_k}" if top_k else "all codes"]
    parts += [f"top p {top_p:g}"] if top_p is not None and top_p < 1 else []
    parts += [f"repetition-aware over {window} codes"] if window else []
    parts += [f"repetition penalty {penalty:g}"] if penalty not in (None, 1) else []
    return ", ".join(parts)


def _range(counts: Iterable[Any]) -> str:
    known = sorted({int(count) for count in counts if count})
    return "" if not known else str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"


def intervals(shown: Collection[str], results: Sequence[Run]) -> str:
    """Say what was drawn for the intervals of these quantities, and what they do not cover."""
    settings = results[0].summary.get("bootstrap", {}) if results else {}
    unit = "speakers" if settings.get("unit") == "speaker" else "utterances"
    text = f"95 % bootstrap intervals over {unit}"
    if settings.get("least"):
        text += f", none (and no p) below {settings['least']} of them"
    timed = [name for name in shown if quantity(name).timed]
    return f"{text}.{_processes(timed, results)}"


def _processes(timed: Collection[str], results: Sequence[Run]) -> str:
    """Say in how many processes times and speedups were measured, and where memory was short."""
    counts = _range(one.measure(name).processes for one in results for name in timed)
    if not counts:
        return ""
    if counts == "1":
        return f" {ONE_PROCESS}"
    text = f" Those of times and speedups are over processes and utterances ({counts} processes)."
    return f"{text} {ONE_PROCESS}" if counts.startswith("1 ") else text
