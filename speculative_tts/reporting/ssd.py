"""The SSD paper's tables and figures: what they show and which runs they need."""

from dataclasses import replace

from speculative_tts.reporting import paper
from speculative_tts.reporting.definitions import (
    Axes,
    Column,
    Curve,
    FigureDefinition,
    Panel,
    Published,
    Report,
    Row,
    TableDefinition,
)
from speculative_tts.reporting.systems import (
    CHOSEN,
    DRAFT,
    EXACT,
    LOOKAHEADS,
    SPECULATION,
    TARGET_LEVEL,
    TARGET_ROW,
    TOLERANCE,
    against,
    length_over_lookahead,
    over_lookahead,
    speedup_over_lookahead,
)

BETAS = (0.0, 0.1, 0.2, 0.3, 0.4)
SSD = {**TOLERANCE, "rule.beta": 0.4}

BESIDE_PAPER = Panel(
    "Beside the paper",
    (
        Column("wer", "wer"),
        Column("dnsmos", "nmos"),
        Column("similarity", "ss"),
        Column("similarity_floor"),
        Column("lm_rtf", "lm_rtf"),
        Column("speedup", "speedup"),
    ),
)
TABLE_1 = TableDefinition(
    name="table1",
    title="SSD Table 1: draft alone, target alone, target with speculation (lookahead 3)",
    experiment="ssd/table1",
    paper=paper.SSD_TABLE_1,
    rows={
        "draft": Row("Draft alone", DRAFT),
        "target": TARGET_ROW,
        "exact": Row("Target + exact SD", {**EXACT, "lookahead": 3}),
        "ssd": Row("Target + SSD (β = 0.4)", {**SSD, "lookahead": 3}),
        "codec": Row(
            "Recordings through the codec", {"system": "codec"}, compared=False, rule_above=True
        ),
        "reference": Row("Recordings", {"system": "reference"}, compared=False),
    },
    panels=(
        BESIDE_PAPER,
        Panel("Length", (Column("stopped_at_max"), Column("length_ratio"))),
        Panel("Speculation", SPECULATION, ("draft", "target", "exact", "ssd")),
        Panel(
            "Paired differences",
            (
                *against("target", "wer"),
                *against("exact", "wer"),
                *against("target", "similarity", "dnsmos"),
            ),
            ("draft", "target", "exact", "ssd"),
        ),
    ),
    notes=(
        (
            "The paper has no row for exact speculative decoding; its law is the target's, so its "
            "quality differs from the target's by chance only."
        ),
        "The last two rows bound what the judges give to any model over these codes.",
    ),
)

TABLE_3 = TableDefinition(
    name="table3",
    title="SSD Table 3: tolerance β at lookahead 3",
    experiment="ssd/table3",
    paper=paper.SSD_TABLE_3,
    rows={
        "target": TARGET_ROW,
        **{
            str(beta): Row(f"β = {beta}", {**TOLERANCE, "rule.beta": beta, "lookahead": 3})
            for beta in BETAS
        },
    },
    panels=(
        BESIDE_PAPER,
        Panel("Speculation", SPECULATION, tuple(map(str, BETAS))),
        Panel(
            "Paired differences",
            (
                *against("target", "wer"),
                *against("0.0", "wer", "similarity", "dnsmos", "speedup"),
            ),
        ),
    ),
    notes=(
        (
            "β = 0 is exact speculative decoding: its law is the target's. The paper prints WER "
            "6.34 there against 3.67 for the target alone (noise, another sampler or a defect); we "
            "report what an exact rule gives."
        ),
        "SS 0.50 at β = 0.1 in the paper lies far from its neighbours, probably a misprint.",
    ),
)

SSD_CURVE = Curve("SSD, β = 0.4", SSD, "lookahead", LOOKAHEADS, style=0)
EXACT_CURVE = Curve("exact", EXACT, "lookahead", LOOKAHEADS, style=1)
CURVES = (SSD_CURVE, EXACT_CURVE)
PUBLISHED_SPEEDUP = Published(
    "paper, β = 0.4", (CHOSEN,), (paper.SSD_TABLE_1.value("ssd", "speedup"),)
)


FIGURE_3 = FigureDefinition(
    name="figure3",
    title="SSD Figure 3: speed against lookahead",
    experiment="ssd/figure3",
    axes=(
        replace(
            over_lookahead("LM-RTF (lower is faster)", "lm_rtf", CURVES), levels=(TARGET_LEVEL,)
        ),
        speedup_over_lookahead(CURVES, PUBLISHED_SPEEDUP),
        length_over_lookahead(CURVES),
    ),
    notes=(
        (
            "The paper's Figure 3 shows, without printed values, that LM-RTF falls and then rises "
            "again as lookahead grows; it chooses 3 (vertical line). Its one printed point there "
            "(Table 1, 0.504 / 0.360 = 1.40) is marked."
        ),
    ),
)

BETA_CURVE = Curve("SSD here", {**TOLERANCE, "lookahead": 3}, "rule.beta", BETAS)
BETA_AXIS = "tolerance β"


def _positions(name: str) -> tuple[Curve, ...]:
    """The sweep over β once for each of the three drafted positions."""
    ordinals = ("first drafted token", "second", "third")
    return tuple(
        Curve(label, BETA_CURVE.where, "rule.beta", BETAS, style=i, y=f"{name}@{i + 1}")
        for i, label in enumerate(ordinals)
    )


def _published(column: str, x: str | None = None) -> Published:
    """A column of the paper's Table 3 over beta, or over another column."""
    xs, ys = (
        [paper.SSD_TABLE_3.value(str(b), name) for b in BETAS] if name else list(BETAS)
        for name in (x, column)
    )
    return Published("paper, β from 0 to 0.4" if x else "paper", xs, ys)


BETA = FigureDefinition(
    name="beta",
    title="SSD: what the tolerance β buys and costs (lookahead 3)",
    experiment="ssd/table3",
    columns=2,
    axes=(
        Axes(
            "Word errors",
            "wer",
            (BETA_CURVE,),
            x_label=BETA_AXIS,
            levels=(TARGET_LEVEL,),
            published=(_published("wer"),),
        ),
        Axes(
            "Speedup over the target alone",
            "speedup",
            (BETA_CURVE,),
            x_label=BETA_AXIS,
            y_label="speedup (same engine)",
            levels=(TARGET_LEVEL,),
            published=(_published("speedup"),),
        ),
        Axes(
            "Acceptance by position",
            "acceptance_rate",
            _positions("acceptance"),
            x_label=BETA_AXIS,
            y_label="accepted / drafted",
        ),
        Axes(
            "Distortion by position",
            "tv",
            _positions("tv"),
            x_label=BETA_AXIS,
            y_label="total variation to the target",
        ),
    ),
    notes=(
        "The paper's WER is by Whisper large-v3 on LibriTTS: compare the shape, not the level.",
        "Acceptance by position counts every drafted token, those after a rejection too.",
        "At β = 0 the rule is exact and its distortion 0 up to rounding.",
    ),
)

TRADEOFF = FigureDefinition(
    name="tradeoff",
    title="SSD: word errors against speed (lookahead 3)",
    experiment="ssd/table3",
    columns=1,
    axes=(
        Axes(
            "Word errors against speed",
            "wer",
            (Curve("SSD, β from 0 to 0.4", BETA_CURVE.where, "rule.beta", BETAS),),
            x="speedup",
            x_label="speedup over the target alone (same engine)",
            levels=(TARGET_LEVEL,),
            published=(_published("wer", "speedup"),),
        ),
    ),
    notes=(
        "Numbers beside the points are β. The paper's speedups follow from its LM-RTF.",
        "The paper's WER is by Whisper large-v3 on LibriTTS: compare the shape, not the level.",
    ),
)

REPORT = Report(
    name="ssd",
    title="SSD: speech speculative decoding with a tolerance",
    introduction=(
        "A draft made of some of the target's layers proposes tokens, the target verifies them in "
        "one pass, and a tolerance β lets through drafts that an exact rule would reject. Lin et "
        "al., Interspeech 2025, arXiv 2505.15380."
    ),
    tables=(TABLE_1, TABLE_3),
    figures=(FIGURE_3, BETA, TRADEOFF),
    listening="table1",
    contrast=("target", "ssd"),
    not_reproduced=("Table 2 (listening test: SIM-MOS, NAT-MOS by 30 raters).",),
)
