"""The MTP + Viterbi paper's tables and figures: what they show and which runs they need.

Its two systems are VALL-E and USLM. At tiny scale the tiny VALL-E plays VALL-E's part, and the tiny
target (CosyVoice 2's shape) USLM's. Table II and the figures are of the target that fills them: at
tiny scale the VALL-E, whose heads are trained with it as the paper's are. The other's heads are put
on a finished trunk, and lose words at any number of candidates.
"""

from dataclasses import replace

from speculative_tts.reporting import paper
from speculative_tts.reporting.definitions import (
    Axes,
    Column,
    Curve,
    FigureDefinition,
    Level,
    Panel,
    Published,
    Report,
    Row,
    TableDefinition,
)
from speculative_tts.reporting.runs import Where
from speculative_tts.reporting.systems import TARGET, against

KS = (3, 5, 7, 9, 15, 25)
NS = tuple(range(1, 9))
PUBLISHED_NS = (4, 8)
Names = tuple[str, str]  # of the tiny target, and of the paper's

HEADS = {"system": "multi_token", "viterbi.candidates": "union"}
OWN = {"system": "multi_token", "viterbi.mode": "none"}
BEST = {**HEADS, "viterbi.mode": "best"}
SAMPLED = {**HEADS, "viterbi.mode": "sample"}
LOSSY = (
    "Multi-token rows are lossy: the target verifies none of their tokens (records count them as "
    "unverified). Exact speculation is in the SSD tables."
)
JOINT = (
    "The tiny VALL-E's heads are trained with it from scratch (eq. 3), but not by the paper's "
    "plain sum: a further head's loss counts 0.3, at every third position, beside word probes and "
    "guided attention, by Muon and AdamW instead of ScaledAdam. It has 4 layers of codes, not 8: "
    "four resynthesise with 2.8 % word errors."
)
BASELINES = (
    "The paper's baseline keeps no keys and values (the public VALL-E code has no cache): its "
    "speedup compares with the uncached row. A cache alone is as exact, so the speedup that counts "
    "is over the cached target at the same k."
)


def _target(k: int) -> Where:
    return {**TARGET, "sampling.top_k": k}


def _row(label: str, where: Where, n: int, k: int, key: str | None = None) -> Row:
    searched = {"viterbi.top_k": k} if "viterbi.candidates" in where else {}
    return Row(label, {**where, **searched, "heads.n": n, "sampling.top_k": k}, key)


TABLE_1_ROWS = {
    "cached": Row("Target alone, k = 3", _target(3), fixed={"speedup": 1.0}),
    "uncached": Row(
        "Target alone, uncached, k = 3", {"system": "uncached", "sampling.top_k": 3}, "baseline"
    ),
    "own8": _row("8 heads, each by itself", OWN, 8, 3),
    "own4": _row("4 heads, each by itself", OWN, 4, 3),
    "best8": _row("8 heads, best path", BEST, 8, 3),
    "best4": _row("4 heads, best path", BEST, 4, 3),
    "ours8": _row("8 heads, sampled path", SAMPLED, 8, 3, "ours"),
    "ours4": _row("4 heads, sampled path", SAMPLED, 4, 3),
}
QUALITY = (
    Column("wer", "wer"),
    Column("cer", "cer"),
    Column("dnsmos", "utmos"),
    Column("similarity", "sim"),
)
AGAINST = Panel("Paired differences", against("cached", "wer", "similarity", "dnsmos"))


def _table_1(
    name: str, title: str, published: paper.PaperTable, targets: Names, *further: str
) -> TableDefinition:
    of_target = {"target.name": targets}
    return TableDefinition(
        name=name,
        title=title,
        experiment=f"mtp/{name}",
        paper=published,
        rows={
            key: replace(row, where={**row.where, **of_target}) for key, row in TABLE_1_ROWS.items()
        },
        panels=(
            Panel(
                "Beside the paper",
                (
                    Column("time_per_token_ms", "tpt"),
                    Column("speedup"),
                    Column("speedup", "speedup", over="uncached"),
                    *QUALITY,
                ),
            ),
            AGAINST,
        ),
        notes=(LOSSY, BASELINES, *further),
    )


TABLE_1 = _table_1(
    "table1",
    "MTP Table I: several tokens a pass, the tiny target in USLM's part",
    paper.MTP_TABLE_1_USLM,
    ("tiny", "USLM"),
)
TABLE_1_VALLE = _table_1(
    "table1_valle",
    "MTP Table I: several tokens a pass, the tiny VALL-E in VALL-E's part",
    paper.MTP_TABLE_1_VALLE,
    ("tiny_valle", "VALL-E"),
    JOINT,
)

TABLE_2 = TableDefinition(
    name="table2",
    title="MTP Table II: candidates k of the path search",
    experiment="mtp/table2",
    paper=paper.MTP_TABLE_2,
    rows={
        **{f"n{n}k{k}": _row(f"{n} heads, k = {k}", BEST, n, k) for n in (8, 4) for k in KS},
        **{
            f"target{k}": Row(f"Target alone, k = {k}", _target(k), rule_above=k == KS[0])
            for k in KS
        },
    },
    panels=(
        Panel(
            "Beside the paper",
            (
                Column("time_per_token_ms", "tpt"),
                Column("dnsmos", "utmos"),
                Column("wer", "wer"),
                Column("speedup"),
            ),
        ),
    ),
    notes=(LOSSY, "Candidates are those of any head (union); the best path is taken.", JOINT),
)


def _published(column: str) -> Published:
    """The paper's two printed points at k = 3."""
    values = [paper.MTP_TABLE_2.value(f"n{n}k3", column) for n in PUBLISHED_NS]
    return Published("paper (USLM, Table II)", PUBLISHED_NS, values)


CURVES = (
    Curve("best path", {**BEST, "sampling.top_k": 3}, "heads.n", NS, style=0),
    Curve("sampled path", {**SAMPLED, "sampling.top_k": 3}, "heads.n", NS, style=2),
    Curve("each head by itself", {**OWN, "sampling.top_k": 3}, "heads.n", NS, style=1),
)
LEVEL = (Level("target alone, k = 3", _target(3)),)
AXIS = "heads (tokens a pass)"

FIGURES = FigureDefinition(
    name="figures3to6",
    title="MTP Figures 3 to 6: time, words, naturalness and speedup against the number of heads",
    experiment="mtp/figures",
    columns=2,
    axes=(
        Axes(
            "Time per token",
            "time_per_token_ms",
            CURVES,
            x_label=AXIS,
            levels=LEVEL,
            published=(_published("tpt"),),
        ),
        Axes(
            "Word errors",
            "wer",
            CURVES,
            x_label=AXIS,
            levels=LEVEL,
            published=(_published("wer"),),
        ),
        Axes(
            "Naturalness",
            "dnsmos",
            CURVES,
            x_label=AXIS,
            levels=LEVEL,
            published=(_published("utmos"),),
        ),
        Axes(
            "Speedup over the cached target",
            "speedup",
            CURVES,
            x_label=AXIS,
            y_label="speedup (same engine, same k)",
            levels=(Level("target alone, k = 3", _target(3), fixed={"speedup": 1.0}),),
        ),
    ),
    notes=(
        LOSSY,
        "One head with a sampled path is top-k sampling: the target's law at that k.",
        "The paper's naturalness is UTMOS, and its curves have no printed values but these two.",
        JOINT,
    ),
)

REPORT = Report(
    name="mtp",
    title="MTP: several tokens a pass and a path search",
    introduction=(
        "Heads on the target's hidden state predict the next n tokens at once; a path search over "
        "their candidates with counted transitions between codes picks a block, which nothing "
        "verifies. Nguyen et al., ICASSP 2025, arXiv 2410.13839."
    ),
    tables=(TABLE_1, TABLE_1_VALLE, TABLE_2),
    figures=(FIGURES,),
    listening="table1",
    contrast=("cached", "ours8"),
    not_reproduced=("Listening tests of Table I (MOS and SMOS, 50 samples a system).",),
)
