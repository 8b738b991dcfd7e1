"""The PCG paper's tables and figures: what they show and which runs they need."""

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
from speculative_tts.reporting.runs import Nearest
from speculative_tts.reporting.systems import (
    CHOSEN,
    DRAFT,
    EXACT,
    LOOKAHEADS,
    SPECULATION,
    TARGET,
    TARGET_LEVEL,
    TARGET_ROW,
    TOLERANCE,
    against,
    length_over_lookahead,
    over_lookahead,
    speedup_over_lookahead,
)

BETAS = (0.1, 0.2, 0.3, 0.4)
SIZES = (1.0, 4.5, 10.3, 40.0, 140.0)  # mean tokens of a group; theta follows from them
TABLE_3_SIZE = 10.3
FIGURE_3_SIZE = 40.0
THETAS = (0.38, 0.4, 0.42, 0.45)  # the range that the paper calls best, of LLaSA-8B's embeddings

AT_3 = {"lookahead": CHOSEN}
SSD_RULE = {**TOLERANCE, "rule.beta": 0.3}
SSD = {**SSD_RULE, **AT_3}
PAPERS_GROUPS = {
    "rule.name": "group",
    "rule.groups.theta": None,
    "rule.groups.cap": None,
    "rule.groups.weights": "equal",
    "rule.groups.path": None,
}
GROUPS = {**PAPERS_GROUPS, "system": "speculative", "rule.groups.source": "embedding"}
EMBEDDING = {**GROUPS, **AT_3}
MEL = {**EMBEDDING, "rule.groups.source": "mel"}
SWAP = {**PAPERS_GROUPS, "system": "swap", "rule.groups.source": "embedding"}
LIKE_SSD = Nearest("ssd", "acceptance_length")


def _key(size: float) -> str:
    return f"{size:g}"


QUALITY = (Column("wer", "wer"), Column("cer", "cer"), Column("similarity", "sim"))
SPEED = (
    *SPECULATION,
    Column("draft_share"),
    Column("verify_share"),
    Column("accept_share"),
)
GROUP_FACTS = (
    Column("groups.mean_size"),
    Column("groups.theta"),
    Column("groups.groups"),
    Column("groups.median_size"),
    Column("groups.max_size"),
    Column("groups.singletons"),
)


def _tested(row: str, *metrics: str) -> tuple[Column, ...]:
    """Every test of the difference to a row: over utterances, and over seeds."""
    return tuple(
        Column(metric, against=row, test=test)
        for metric in metrics
        for test in ("bootstrap", "welch", "seeds")
    )


TABLE_1 = TableDefinition(
    name="table1",
    title="PCG Table 1: quality at one speed (lookahead 3)",
    experiment="pcg/table1",
    paper=paper.PCG_TABLE_1,
    spread="sd",
    rows={
        "draft": Row("Draft alone", DRAFT),
        "target": TARGET_ROW,
        "exact": Row("Target + SD", {**EXACT, **AT_3}),
        "ssd": Row("Target + SSD (β = 0.3)", SSD),
        "pcg": Row("Target + PCG at SSD's speed", EMBEDDING, nearest=LIKE_SSD),
    },
    panels=(
        Panel(
            "Beside the paper",
            (
                Column("speedup", "speedup"),
                Column("speedup_by_length"),
                *QUALITY,
                Column("dnsmos", "nmos"),
            ),
        ),
        Panel("Where PCG landed", GROUP_FACTS, ("pcg",)),
        Panel("Speculation", SPEED, ("exact", "ssd", "pcg")),
        Panel(
            "PCG against SSD, paired",
            _tested("ssd", "wer", "cer", "similarity", "dnsmos"),
            ("pcg",),
        ),
        Panel(
            "Paired differences to the target alone",
            against("target", "wer", "cer", "similarity", "dnsmos"),
            ("draft", "exact", "ssd", "pcg"),
        ),
    ),
    notes=(
        (
            "The speed is that of SSD with the paper's β = 0.3; the mean group size of PCG is "
            "searched for the same acceptance length (`match=0.3`). PCG's accept step takes longer "
            "than SSD's (accept %): about 3 % of a round on the tiny target."
        ),
        "The paper tests PCG against SSD with a t-test over seeds (p = 0.039).",
    ),
)

TABLE_2 = TableDefinition(
    name="table2",
    title="PCG Table 2: the target's tokens swapped within their groups",
    experiment="pcg/table2",
    paper=paper.PCG_TABLE_2,
    spread="sd",
    rows={
        "target": Row("Unswapped", TARGET, fixed={"swapped": 0.0, "changed": 0.0}),
        **{
            _key(size): Row(f"Mean group size {size:g}", {**SWAP, "rule.groups.mean_size": size})
            for size in SIZES
        },
        **{
            f"pcg{size:g}": Row(
                f"PCG, mean group size {size:g}",
                {**EMBEDDING, "rule.groups.mean_size": size},
                paper=_key(size),
            )
            for size in SIZES
        },
    },
    panels=(
        Panel(
            "Swap test",
            (
                Column("groups.theta"),
                Column("groups.mean_size"),
                Column("swapped", "swapped"),
                Column("changed"),
                Column("wer"),
                Column("wer", "delta_wer", against="target"),
                *against("target", "cer"),
                Column("similarity", "delta_sim", against="target"),
                *against("target", "dnsmos"),
            ),
            ("target", *map(_key, SIZES)),
        ),
        Panel(
            "Speculation by the same groups",
            (
                Column("speedup", "speedup"),
                Column("speedup_by_length"),
                Column("acceptance_length"),
                Column("wer"),
                Column("tv"),
                Column("accept_share"),
            ),
            tuple(f"pcg{size:g}" for size in SIZES),
        ),
    ),
    notes=(
        (
            "Every token whose own group has company is replaced by a uniform draw from it, "
            "in sequences that the target made; then they are synthesised again."
        ),
        "The paper prints ΔWER as a fraction (+0.004 is +0.4 points).",
    ),
)

TABLE_3 = TableDefinition(
    name="table3",
    title="PCG Table 3: groups by mel frames or by embeddings, at one speed (lookahead 3)",
    experiment="pcg/table3",
    paper=paper.PCG_TABLE_3,
    spread="sd",
    rows={
        "mel": Row("Mel spectrogram", MEL, nearest=Nearest("embedding", "acceptance_length")),
        "embedding": Row(
            "Cosine of embeddings", {**EMBEDDING, "rule.groups.mean_size": TABLE_3_SIZE}
        ),
    },
    panels=(
        Panel(
            "Beside the paper",
            (Column("speedup"), Column("speedup_by_length"), *QUALITY, Column("dnsmos")),
        ),
        Panel("Groups", GROUP_FACTS, ("mel", "embedding")),
        Panel("Speculation", SPEED),
        Panel(
            "Embeddings against mel, paired", _tested("mel", "wer", "similarity"), ("embedding",)
        ),
    ),
    notes=(
        (
            "The paper says that both have the same speedup and not which: its word errors lie "
            "between those of SD and PCG in Table 1, about where 1.2x is, which is the speed of "
            f"mean size {TABLE_3_SIZE:g} in Table 2. So that size is taken for embeddings; that of "
            f"mel groups is searched for its acceptance length (`match=size:{TABLE_3_SIZE:g}`)."
        ),
        (
            "The paper does not say how it makes mel groups. Here a token is decoded between three "
            "tokens of silence on each side; the log-mel frames within its time are averaged, and "
            "the mean over all codes is taken away before cosines."
        ),
    ),
)

SIZES_TABLE = TableDefinition(
    name="groups",
    title="PCG: the groups of every mean size, and what their rule costs (lookahead 3)",
    experiment="pcg/figure2",
    paper=paper.PCG_TABLE_2,
    spread="sd",
    rows={
        _key(size): Row(f"Mean size {size:g}", {**EMBEDDING, "rule.groups.mean_size": size})
        for size in SIZES
    },
    panels=(
        Panel(
            "Groups by cosine of the target's input embeddings",
            (
                *GROUP_FACTS,
                Column("groups.bytes"),
                Column("groups.likeness.spearman"),
                Column("groups.likeness.percentile"),
            ),
        ),
        Panel(
            "Speculation",
            (
                Column("speedup"),
                Column("speedup_by_length"),
                *SPEED,
                Column("expected_trials"),
            ),
        ),
    ),
    notes=(
        "The goal for the rule is at most 10 % of a round.",
        (
            "Thinning's draws: how often the paper's loop would draw after a rejection, 1 / TV of "
            "the groups' laws (in the paper about 3 at most on average). The rule here only sums."
        ),
    ),
)

PCG_CURVE = Curve("PCG, mean group size", EMBEDDING, "rule.groups.mean_size", SIZES, style=0)
THETA_CURVE = Curve(
    "PCG, θ",
    {key: value for key, value in EMBEDDING.items() if key != "rule.groups.theta"},
    "rule.groups.theta",
    THETAS,
    style=2,
    optional=True,
)
SSD_CURVE = Curve("SSD, β", {**TOLERANCE, **AT_3}, "rule.beta", BETAS, style=1)
MEASURED = "speedup over the target alone (measured)"
BY_LENGTH = "speedup by acceptance length (no timing noise)"
POINTS = (Level("exact SD", {**EXACT, **AT_3}), TARGET_LEVEL)


def _published(row: str, label: str) -> Published:
    table = paper.PCG_TABLE_1
    return Published(f"paper: {label}", (table.value(row, "speedup"),), (table.value(row, "wer"),))


def _frontier(title: str, y: str, x: str, *published: Published) -> Axes:
    """Both rules' curves over one measure of speed."""
    label = MEASURED if x == "speedup" else BY_LENGTH
    curves = (PCG_CURVE, SSD_CURVE, THETA_CURVE)
    return Axes(title, y, curves, x=x, x_label=label, levels=POINTS, published=published)


FIGURE_2 = FigureDefinition(
    name="figure2",
    title="PCG Figure 2: word errors and distortion against speed (lookahead 3)",
    experiment="pcg/figure2",
    columns=2,
    axes=(
        _frontier(
            "Word errors, measured speed",
            "wer",
            "speedup",
            *(_published(row, row if row != "exact" else "sd") for row in ("exact", "ssd", "pcg")),
        ),
        _frontier("Word errors, speed by length", "wer", "speedup_by_length"),
        _frontier("Distortion, measured speed", "tv", "speedup"),
        _frontier("Distortion, speed by length", "tv", "speedup_by_length"),
    ),
    notes=(
        "Numbers beside the points are β, the mean group size (groups.md has the θ of each) or θ.",
        (
            "Distortion is the total variation between the target's next-token law and the emitted "
            "one. PCG's law of the *group* is the target's, whatever its distortion of tokens."
        ),
        "The paper's points are those of its Table 1; its WER is by HuBERT on LibriTTS.",
    ),
)

PCG_AT_SIZE = {**GROUPS, "rule.groups.mean_size": FIGURE_3_SIZE}
FIGURE_3_CURVES = (
    Curve(f"PCG, mean size {FIGURE_3_SIZE:g}", PCG_AT_SIZE, "lookahead", LOOKAHEADS, style=0),
    Curve("SSD, β = 0.3", SSD_RULE, "lookahead", LOOKAHEADS, style=1),
    Curve("exact SD", EXACT, "lookahead", LOOKAHEADS, style=2),
)

FIGURE_3 = FigureDefinition(
    name="figure3",
    title="PCG Figure 3: speed against lookahead",
    experiment="pcg/figure3",
    axes=(
        speedup_over_lookahead(FIGURE_3_CURVES),
        length_over_lookahead(FIGURE_3_CURVES),
        over_lookahead("Word errors", "wer", FIGURE_3_CURVES),
    ),
    notes=("The paper finds 3 best (vertical line); it prints no values.",),
)

REPORT = Report(
    name="pcg",
    title="PCG: acceptance by acoustic similarity groups",
    introduction=(
        "A drafted token is accepted by the probability of a group of similar tokens, not by its "
        "own: the law of the emitted group is the target's, the token in it may be the draft's. "
        "Yanuka et al., arXiv 2511.13732."
    ),
    tables=(TABLE_1, TABLE_2, TABLE_3, SIZES_TABLE),
    figures=(FIGURE_2, FIGURE_3),
    listening="table1",
    contrast=("pcg", "ssd"),
    not_reproduced=("The listening test of Table 1 (NMOS, 4 raters); DNSMOS stands beside it.",),
)
