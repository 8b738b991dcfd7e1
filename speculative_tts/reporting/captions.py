"""What a reader must know to read a table: definitions of its quantities, made from its columns."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from speculative_tts.reporting.definitions import Column, quantity, whole
from speculative_tts.reporting.results import Result

JUDGES = {  # id of a judge -> its name in a heading
    "pocketsphinx-words": "pocketsphinx word grammar",
    "pocketsphinx-general": "pocketsphinx general model",
    "ge2e": "GE2E",
    "dnsmos-p808": "P.808",
}

MEANINGS = {  # in the order of the caption; a sentence is used when one of its quantities is shown
    ("wer", "cer"): "WER is total edits over total words.",
    ("similarity",): "SIM is the cosine between speaker embeddings of the output and its prompt.",
    ("similarity_floor",): (
        "SIM to other speakers is its mean cosine to the prompts of the list's other speakers: "
        "what somebody else's voice gets."
    ),
    ("stopped_at_max",): "At max length are utterances that were cut off instead of ending.",
    ("lm_rtf",): "LM-RTF is language-model seconds over seconds of audio made, prefill included.",
    ("speedup",): (
        "Speedup is tokens per second over those of the target alone decoding the same utterances "
        "autoregressively in the same engine and process."
    ),
    ("speedup_by_length",): (
        "Speedup by acceptance length is acceptance length over what a round costs in steps of the "
        "target alone: one figure for all runs of the report with a lookahead, the geometric mean "
        "of acceptance length over measured speedup. It is free of timing noise; what the rules' "
        "own work differs by (see accept %) is not in it."
    ),
    ("swapped", "changed"): (
        "Swapped tokens have company in their group and are drawn again, uniformly and themselves "
        "included; changed ones came out another token."
    ),
    ("groups.theta",): "θ is the cosine above which two tokens are similar.",
    ("groups.likeness.spearman",): (
        "Rank correlation is that of cosine with closeness in the codec's codebook, over all pairs "
        "of tokens (1: the same order)."
    ),
    ("groups.likeness.percentile",): (
        "Percentile is where the 50 tokens nearest by cosine lie on average in the order of "
        "codebook distance (0: the closest, 50: chance)."
    ),
    ("draft_share", "verify_share", "accept_share"): (
        "Draft, verify and accept are shares of a round's seconds in an instrumented decode; the "
        "rule's work is in accept."
    ),
    ("acceptance_rate",): "Acceptance rate is accepted over drafted tokens.",
    ("acceptance_length", "acceptance_length_without_bonus"): (
        "Acceptance length is tokens emitted by rounds over rounds, residual and bonus tokens "
        "included and the prefill's token not (vLLM's convention); without bonus it is accepted "
        "drafts over rounds."
    ),
    ("tv", "kl"): (
        "TV and KL are the total variation and Kullback-Leibler divergence from the target's "
        "next-token distribution to the emitted one, mean over verified positions."
    ),
    ("length_ratio",): "Length ratio is seconds of output over seconds of the recording.",
}

SEEDS_SPREAD = "Figures are mean ± standard deviation over seeds."
PAIRED_TESTS = (
    "Δ columns are paired differences with two-sided bootstrap p, corrected by Holm's method for "
    "the systems compared."
)
SEED_TESTS = (
    "Tests over seeds take each seed's corpus figure, two-sided and not corrected: Welch's t, and "
    "the paired t over seeds that both have."
)

TIMED = {"lm_rtf", "time_per_token_ms", "tokens_per_second", "speedup", "speedup_by_length"}


def judge_name(metric: str | None, results: Iterable[Result]) -> str:
    """Who measured a metric, for a heading; several names where runs differ, empty for nobody."""
    if metric is None:
        return ""
    ids = dict.fromkeys(str(one.judge(metric).get("id") or "") for one in results)
    return " / ".join(JUDGES.get(name, name) for name in ids if name)


def caption(columns: Sequence[Column], results: Sequence[Result], spread: str) -> list[str]:
    """Sentences about utterances, intervals, tests and the quantities shown."""
    shown = {column.quantity for column in columns}
    return [
        *_utterances(shown, results),
        SEEDS_SPREAD if spread == "sd" else f"Brackets: {intervals(shown, results)}",
        *([PAIRED_TESTS] if any(column.against for column in columns) else []),
        *([SEED_TESTS] if any(column.test != "bootstrap" for column in columns) else []),
        *definitions(shown, results),
    ]


def definitions(shown: Collection[str], results: Sequence[Result]) -> list[str]:
    """What the quantities mean, and how far WER of this grammar can be compared."""
    bases = set(map(whole, shown))
    sentences = [text for names, text in MEANINGS.items() if bases.intersection(names)]
    judges = {one.judge("wer").get("id") for one in results}
    if "wer" in shown and "pocketsphinx-words" in judges:
        sentences.append(
            "The recogniser's grammar knows only the words of the tiny system: its WER compares "
            "systems with each other, not with an open recogniser."
        )
    return sentences


def _utterances(shown: Collection[str], results: Sequence[Result]) -> list[str]:
    """How many utterances; those of a judge that heard fewer are named."""
    counts = _range(one.measure("wer").n for one in results) or _range(
        run.summary.get("n") for one in results for run in one.runs
    )
    if not counts:
        return []
    text = f"{counts} utterances"
    words = _range(_words(one) for one in results)
    if words and {"wer", "wer_mean"} & set(shown):
        text += f" ({words} words)"
    for name in ("similarity", "dnsmos", "tv"):
        fewer = _range(one.measure(name).n for one in results)
        if name in shown and fewer and fewer != counts:
            text += f", {quantity(name).heading} on {fewer}"
    seeds = sorted({run.seed for one in results for run in one.runs})
    return [f"{text}; seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}."]


def _words(one: Result) -> int:
    """Words that a system's WER rests on, of one seed."""
    return sum(row.get("words") or 0 for row in one.runs[0].rows("scores.jsonl").values())


def _range(counts: Iterable[Any]) -> str:
    known = sorted({int(count) for count in counts if count})
    return "" if not known else str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"


def intervals(shown: Collection[str], results: Sequence[Result]) -> str:
    """What was drawn for the intervals of these quantities, and what they do not say."""
    settings = results[0].runs[0].summary.get("bootstrap", {}) if results else {}
    unit = "speakers" if settings.get("cluster") == "speaker" else "utterances"
    text = f"95 % bootstrap intervals over {unit}"
    if settings.get("least"):
        text += f", none (and no p) below {settings['least']} of them"
    if TIMED & set(shown):
        text += (
            ". Those of times and speedups hold for these utterances in this run; "
            "a repeat on a shared machine can differ by more"
        )
    return f"{text}."
