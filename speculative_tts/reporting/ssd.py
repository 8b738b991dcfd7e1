"""The SSD paper's tables and figures: what they show and which runs they need."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from speculative_tts.reporting import paper
from speculative_tts.reporting.definitions import (
    Axes,
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
from speculative_tts.reporting.matched import EQUAL, matched
from speculative_tts.reporting.pcg_figures import GROUPS, SIZE, at, sizes
from speculative_tts.reporting.systems import (
    EXACT,
    LOOKAHEAD_AXIS,
    SPECULATION,
    TARGET,
    TARGET_LEVEL,
    TARGET_ROW,
    TOLERANCE,
    against,
    length_over_lookahead,
    of_methods,
    over_lookahead,
    speedup_over_lookahead,
)

BETA = TOLERANCE["rule.beta"]  # the paper's choice

PARTS = {"LM": "lm_rtf", "codec": "codec_rtf"}
PARTS_OF_PAPER = {"LM": "lm_rtf", "flow": "flow_rtf", "vocoder": "vocoder_rtf"}

BESIDE_PAPER = Panel(
    "Beside the paper",
    columns("wer=wer dnsmos=nmos similarity=ss similarity_floor lm_rtf=lm_rtf rtf speedup=speedup"),
)


def _table_1(made_by: Experiment) -> TableDefinition:
    k = made_by.settings["lookahead"]
    rows = {
        "draft": Row("Draft alone", method("draft")),
        "target": TARGET_ROW,
        "exact": Row("Target + exact SD", {**EXACT, "lookahead": k}),
        "ssd": Row(f"Target + SSD (β = {BETA:g})", {**TOLERANCE, "lookahead": k}),
        "codec": Row(
            "Recordings through the codec", method("codec"), compared=False, rule_above=True
        ),
        "reference": Row("Recordings", method("reference"), compared=False),
    }
    systems = ("draft", "target", "exact", "ssd")
    return TableDefinition(
        name="table1",
        title=f"SSD Table 1: draft alone, target alone, target with speculation (lookahead {k})",
        experiment=made_by.name,
        paper=paper.SSD_TABLE_1,
        rows=of_methods(made_by, rows),
        panels=(
            BESIDE_PAPER,
            Panel("Length", columns("stopped_at_max stopped_early length_ratio")),
            Panel("Speculation", SPECULATION, systems),
            Panel(
                "Paired differences",
                (
                    *against("target", "wer"),
                    *against("exact", "wer"),
                    *against("target", "similarity", "dnsmos"),
                ),
                systems,
            ),
        ),
        notes=(
            (
                "The paper has no row for exact speculative decoding; its law is the target's, so "
                "its quality differs from the target's by chance only."
            ),
            "The last two rows bound what the judges give to any model over these codes.",
        ),
    )


def _table_2(table_1: TableDefinition) -> TableDefinition:
    """Of Table 1's systems those that the paper let people hear."""
    return TableDefinition(
        name="table2",
        title="SSD Table 2: listening test",
        experiment=table_1.experiment,
        paper=paper.SSD_TABLE_2,
        heard=True,
        rows={key: table_1.rows[key] for key in paper.SSD_TABLE_2.rows if key in table_1.rows},
        panels=(Panel("Beside the paper", columns("smos=smos mos=mos")),),
        notes=(
            (
                "The paper's ± takes a rater's ratings as independent, as sst-listen score prints "
                "ours too; here raters and utterances are drawn, which is wider where raters lean "
                "their own way."
            ),
        ),
    )


def _table_3(made_by: Experiment) -> TableDefinition:
    k = made_by.settings["lookahead"]
    betas = {str(float(beta)): float(beta) for beta in made_by.values("rule.beta")}
    where = {**TOLERANCE, "lookahead": k}
    return TableDefinition(
        name="table3",
        title=f"SSD Table 3: tolerance β at lookahead {k}",
        experiment=made_by.name,
        paper=paper.SSD_TABLE_3,
        rows={
            "target": TARGET_ROW,
            **{key: Row(f"β = {key}", {**where, "rule.beta": b}) for key, b in betas.items()},
        },
        panels=(
            BESIDE_PAPER,
            Panel("Speculation", SPECULATION, tuple(betas)),
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
                "β = 0 is exact speculative decoding: its law is the target's. The paper prints "
                "WER 6.34 there against 3.67 for the target alone (noise, another sampler or a "
                "defect); we report what an exact rule gives."
            ),
            "SS 0.50 at β = 0.1 in the paper lies far from its neighbours, probably a misprint.",
        ),
    )


def _figure_3(made_by: Experiment, chosen: int) -> FigureDefinition:
    lookaheads = made_by.values("lookahead")
    curves = (
        Curve(f"SSD, β = {BETA:g}", TOLERANCE, "lookahead", lookaheads, style=0),
        Curve("exact", EXACT, "lookahead", lookaheads, style=1),
    )
    speedup = paper.SSD_TABLE_1.value("ssd", "speedup")
    lm_rtf = over_lookahead("LM-RTF (lower is faster)", "lm_rtf", curves, chosen)
    return FigureDefinition(
        name="figure3",
        title="SSD Figure 3: speed against lookahead",
        experiment=made_by.name,
        axes=(
            replace(lm_rtf, levels=(TARGET_LEVEL,)),
            speedup_over_lookahead(
                curves, chosen, Published(f"paper, β = {BETA:g}", (chosen,), (speedup,))
            ),
            length_over_lookahead(curves, chosen),
        ),
        notes=(
            (
                "The paper's Figure 3 shows, without printed values, that LM-RTF falls and then "
                "rises again as lookahead grows; it chooses 3 (vertical line). Its one printed "
                "point there (Table 1, 0.504 / 0.360 = 1.40) is marked."
            ),
        ),
    )


def _figure_1b(made_by: Experiment, parts: Mapping[str, str]) -> FigureDefinition:
    curves = tuple(
        Curve(label, TOLERANCE, "lookahead", made_by.values("lookahead"), style=style, y=quantity)
        for style, (label, quantity) in enumerate(parts.items())
    )
    title = f"Seconds a second of audio, SSD with β = {BETA:g}"
    axes = Axes(title, "lm_rtf", curves, x_label=LOOKAHEAD_AXIS, y_label="real-time factor")
    return FigureDefinition(
        name="figure1b",
        title="SSD Figure 1(b): time by part",
        experiment=made_by.name,
        columns=1,
        axes=(replace(axes, levels=(Level("LM, target alone", TARGET),)),),
        notes=(
            (
                "The paper's Figure 1(b) divides CosyVoice 2's time so; what comes after the LM "
                "does not depend on the rule."
            ),
        ),
    )


SHAPE = "The paper's WER is by Whisper large-v3 on LibriTTS: compare the shape, not the level."


def _curve(made_by: Experiment) -> Curve:
    where = {**TOLERANCE, "lookahead": made_by.settings["lookahead"]}
    betas = [float(beta) for beta in made_by.values("rule.beta")]
    return Curve("SSD here", where, "rule.beta", betas)


def _published(betas: Sequence[float], column: str, x: str | None = None) -> Published:
    """A column of the paper's Table 3 over beta, or over another column."""
    printed = [beta for beta in betas if str(beta) in paper.SSD_TABLE_3.rows]
    xs, ys = (
        [paper.SSD_TABLE_3.value(str(beta), name) for beta in printed] if name else printed
        for name in (x, column)
    )
    return Published("paper, β from 0 to 0.4" if x else "paper", xs, ys)


def _beta(made_by: Experiment) -> FigureDefinition:
    curve, axis = _curve(made_by), "tolerance β"
    ordinals = ("first drafted token", "second", "third")

    def positions(name: str) -> tuple[Curve, ...]:
        """The sweep over β once for each of the three drafted positions."""
        return tuple(
            replace(curve, label=label, style=i, y=f"{name}@{i + 1}")
            for i, label in enumerate(ordinals)
        )

    def beside_paper(title: str, y: str, y_label: str = "") -> Axes:
        levels, published = (TARGET_LEVEL,), (_published(curve.values, y),)
        return Axes(title, y, (curve,), None, axis, y_label, levels=levels, published=published)

    return FigureDefinition(
        name="beta",
        title=f"SSD tolerance: what β buys and costs (lookahead {curve.where['lookahead']})",
        experiment=made_by.name,
        columns=2,
        axes=(
            beside_paper("Word errors", "wer"),
            beside_paper("Speedup over the target alone", "speedup", "speedup (same engine)"),
            Axes(
                "Acceptance by position",
                "acceptance_rate",
                positions("acceptance"),
                x_label=axis,
                y_label="accepted / drafted",
            ),
            Axes(
                "Distortion by position",
                "tv",
                positions("tv"),
                x_label=axis,
                y_label="total variation to the target",
            ),
        ),
        notes=(
            SHAPE,
            "Acceptance by position counts every drafted token, those after a rejection too.",
            "At β = 0 the rule is exact and its distortion 0 up to rounding.",
        ),
    )


def _tradeoff(made_by: Experiment, pcg: Experiment | None) -> FigureDefinition:
    curve = _curve(made_by)
    first, last = min(curve.values), max(curve.values)
    curves = [replace(curve, label=f"SSD, β from {first:g} to {last:g}")]
    if pcg:
        curves.append(Curve("PCG, mean group size", at(pcg, GROUPS), SIZE, sizes(pcg), style=1))
    return FigureDefinition(
        name="tradeoff",
        title=f"SSD trade-off: word errors against speed (lookahead {curve.where['lookahead']})",
        experiment=made_by.name,
        columns=1,
        axes=(
            Axes(
                "Word errors against speed",
                "wer",
                curves,
                x="speedup",
                x_label="speedup over the target alone (same engine)",
                levels=(TARGET_LEVEL,),
                published=(_published(curve.values, "wer", "speedup"),),
            ),
        ),
        notes=(
            "Beside the points are β and group sizes. The paper's speedups follow from its LM-RTF.",
            SHAPE,
        ),
    )


def report(scale: Scale) -> Report:
    """The report of the experiments at a scale."""
    table_1, table_3, figure_3 = (
        scale.experiment("ssd", name) for name in ("table1", "table3", "figure3")
    )
    first = _table_1(table_1)
    pcg = scale.experiment("ssd", "groups") if scale.has("ssd", "groups") else None
    return Report(
        name="ssd",
        title="SSD: speech speculative decoding with a tolerance",
        introduction=(
            "A draft made of some of the target's layers proposes tokens, the target verifies them "
            "in one pass, and a tolerance β lets through drafts that an exact rule would reject. "
            "Lin et al., Interspeech 2025, arXiv 2505.15380."
        ),
        tables=(
            first,
            _table_2(first),
            _table_3(table_3),
            *(matched(table_1, table_3, pcg, quantity) for quantity in EQUAL if pcg),
        ),
        figures=(
            _figure_1b(figure_3, PARTS_OF_PAPER if scale == PAPERS_OWN else PARTS),
            _figure_3(figure_3, table_1.settings["lookahead"]),
            _beta(table_3),
            _tradeoff(table_3, pcg),
        ),
        listening="table1",
        contrast=("target", "ssd"),
        not_reproduced=(
            "Table 2 (SIM-MOS, NAT-MOS by 30 raters) before people have listened: sst-listen.",
        ),
    )
