"""The MTP + Viterbi paper's tables and figures: what they show and which runs they need.

Its two systems are VALL-E and USLM. At tiny scale the tiny VALL-E plays VALL-E's part, and the tiny
target (CosyVoice 2's shape) USLM's; Table II and the figures are of the tiny VALL-E there, whose
heads are trained with it as the paper's are.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

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
    columns,
)
from speculative_tts.reporting.experiments import PAPERS_OWN, Experiment, Scale, method
from speculative_tts.reporting.runs import Where
from speculative_tts.reporting.systems import TARGET, against

PUBLISHED_NS = (4, 8)
MODES = {"none": "each by itself", "best": "best path", "sample": "sampled path"}
OURS = "best"  # the mode that stands beside the paper's figures
NATURALNESS = "utmos|dnsmos"
LOSSY = (
    "Multi-token rows are lossy: the target verifies none of their tokens (records count them as "
    "unverified). Exact speculation is in the SSD tables."
)
ONE_CHOICE = (
    "The paper's figures stand beside the best path everywhere: that is what its equations take. "
    "It also speaks of top-k sampling, which is the sampled path here."
)
WHOLE = (
    "The official command lines draw from all codes unless told otherwise: part of what the paper "
    "gains in words may come from k = 3 itself."
)
BASELINES = (
    "That the paper's target keeps no keys and values is inferred (the public VALL-E code of its "
    "time has no cache; the paper does not say). Its speedup then is that of uncached heads over "
    "the uncached target. A cache alone is as exact, so the speedup that counts is over the cached "
    "target at the same k."
)
QUALITY = columns(f"wer=wer cer=cer {NATURALNESS}=utmos similarity=sim")


def _alone(k: int) -> Where:
    return {**TARGET, "sampling.top_k": k}


def _heads(mode: str, k: int) -> dict[str, Any]:
    """The heads' tokens chosen in a mode; a path search's candidates are as many as a sampler's."""
    where = {**method("mtp"), "viterbi.mode": mode, "sampling.top_k": k}
    return where if mode == "none" else {**where, "viterbi.candidates": "union", "viterbi.top_k": k}


def _table_1(made_by: Experiment, name: str, published: paper.PaperTable) -> TableDefinition:
    k = made_by.settings["sampling.top_k"]
    rows = {
        "cached": Row(f"Target alone, k = {k}", _alone(k), fixed={"speedup": 1.0}),
        "uncached": Row(
            f"Target alone, uncached, k = {k}", {**_alone(k), **method("uncached")}, "baseline"
        ),
    }
    whole = {**_alone(0), "sampling.top_p": 1.0}
    rows["whole"] = Row("Target alone, every code (the official default)", whole)
    for mode in made_by.values("viterbi.mode"):
        for n in made_by.values("heads.n"):
            ours = "ours" if (mode, n) == (OURS, max(made_by.values("heads.n"))) else None
            where = {**_heads(mode, k), "heads.n": n}
            rows[f"{mode}{n}"] = Row(f"{n} heads, {MODES[mode]}", where, ours)
            if mode == OURS:
                bare = {**where, **method("uncached_heads")}
                rows[f"bare{n}"] = Row(f"{n} heads, {MODES[mode]}, uncached", bare, ours)
    return TableDefinition(
        name=name,
        title=f"MTP Table I, {made_by.target}: several tokens a pass, beside {published.system}",
        experiment=made_by.name,
        paper=published,
        rows={
            "truth": Row("Recordings", method("reference"), "truth", compared=False),
            **{
                key: replace(row, where={**row.where, "target.name": made_by.target})
                for key, row in rows.items()
            },
        },
        panels=(
            Panel(
                "Beside the paper",
                (
                    *columns("time_per_token_ms=tpt speedup"),
                    Column("speedup", "speedup", over="uncached"),
                    *columns("mos=mos smos=smos"),
                    *QUALITY,
                ),
            ),
            Panel("Paired differences", against("cached", "wer", "similarity", NATURALNESS)),
        ),
        notes=(LOSSY, ONE_CHOICE, BASELINES, WHOLE),
    )


def _table_2(made_by: Experiment) -> TableDefinition:
    ks = made_by.values("sampling.top_k")
    heads = {
        f"n{n}k{k}": Row(f"{n} heads, k = {k}", {**_heads(OURS, k), "heads.n": n})
        for n in made_by.values("heads.n")
        for k in ks
    }
    alone = {
        f"target{k}": Row(f"Target alone, k = {k}", _alone(k), rule_above=k == ks[0]) for k in ks
    }
    return TableDefinition(
        name="table2",
        title="MTP Table II: candidates k of the path search",
        experiment=made_by.name,
        paper=paper.MTP_TABLE_2,
        rows={**heads, **alone},
        panels=(
            Panel(
                "Beside the paper",
                columns(f"time_per_token_ms=tpt {NATURALNESS}=utmos wer=wer speedup"),
            ),
        ),
        notes=(LOSSY, "Candidates are those of any head (union).", ONE_CHOICE),
    )


def _published(column: str) -> Published:
    """The paper's two printed points at k = 3."""
    values = [paper.MTP_TABLE_2.value(f"n{n}k3", column) for n in PUBLISHED_NS]
    return Published("paper (USLM, Table II)", PUBLISHED_NS, values)


def _figures(made_by: Experiment) -> FigureDefinition:
    k, ns = made_by.settings["sampling.top_k"], made_by.values("heads.n")
    modes = {
        "best": (MODES["best"], 0),
        "sample": (MODES["sample"], 2),
        "none": ("each head by itself", 1),
    }
    curves = [
        Curve(label, _heads(mode, k), "heads.n", ns, style=style)
        for mode, (label, style) in modes.items()
        if mode in made_by.values("viterbi.mode")
    ]
    label, axis = f"target alone, k = {k}", "heads (tokens a pass)"

    def plot(title: str, y: str, published: str) -> Axes:
        levels = (Level(label, _alone(k)),)
        return Axes(title, y, curves, None, axis, levels=levels, published=(_published(published),))

    return FigureDefinition(
        name="figures3to6",
        title="MTP Figures 3 to 6: time, words, naturalness and speedup by the number of heads",
        experiment=made_by.name,
        columns=2,
        axes=(
            plot("Time per token", "time_per_token_ms", "tpt"),
            plot("Word errors", "wer", "wer"),
            plot("Naturalness", NATURALNESS, "utmos"),
            Axes(
                "Speedup over the cached target",
                "speedup",
                curves,
                x_label=axis,
                y_label="speedup (same engine, same k)",
                levels=(Level(label, _alone(k), fixed={"speedup": 1.0}),),
            ),
        ),
        notes=(
            LOSSY,
            "One head with a sampled path is top-k sampling: the target's law at that k.",
            "The paper's naturalness is UTMOS; its curves have no printed values but these two.",
        ),
    )


def report(scale: Scale) -> Report:
    """The report of the experiments at a scale."""
    uslm = "table1_uslm" if scale is PAPERS_OWN else "table1"
    names: Sequence[str] = (uslm, "table1_valle", "table2", "figures")
    table_1, valle, table_2, figures = (scale.experiment("mtp", name) for name in names)
    return Report(
        name="mtp",
        title="MTP: several tokens a pass and a path search",
        introduction=(
            "Heads on the target's hidden state predict the next n tokens at once; a path search "
            "over their candidates with counted transitions between codes picks a block, which "
            "nothing verifies. Nguyen et al., ICASSP 2025, arXiv 2410.13839."
        ),
        tables=(
            _table_1(table_1, "table1", paper.MTP_TABLE_1_USLM),
            _table_1(valle, "table1_valle", paper.MTP_TABLE_1_VALLE),
            _table_2(table_2),
        ),
        figures=(_figures(figures),),
        listening="table1",
        contrast=("cached", f"{OURS}{max(table_1.values('heads.n'))}"),
        not_reproduced=(
            "MOS and SMOS of Table I (50 samples) before people have listened: sst-listen.",
        ),
    )
