"""Every rule with every drafter: words and distortion against tokens a round."""

from collections.abc import Sequence

from speculative_tts.reporting.definitions import (
    Axes,
    Curve,
    FigureDefinition,
    Level,
    Panel,
    Report,
    Row,
    TableDefinition,
    columns,
)
from speculative_tts.reporting.experiments import Scale, read
from speculative_tts.reporting.paper import PaperTable
from speculative_tts.reporting.pcg_figures import BETA, GROUPS, PAPERS_GROUPS, SIZE, at, sizes
from speculative_tts.reporting.runs import Where
from speculative_tts.reporting.systems import EXACT, TARGET, TOLERANCE
from speculative_tts.schema.common import GroupsConfig

MADE_BY, SSD, PCG = (read(name) for name in ("frontier", "ssd/table3", "ssd/groups"))
NOT_PUBLISHED = PaperTable(source="", measured={}, rows={})  # no paper has them side by side
RULES = {
    "exact": "exact",
    "tolerance": "SSD",
    "group": "PCG",
    "typical": "typical (Medusa)",
    "top": "top 50 (LLaSA+)",
    "divergence": "divergence (FSD)",
    "neighbours": "neighbours (LANTERN)",
    "dynamic": "groups made at each position (GSD)",
}
SWEPT = ("exact", "tolerance", "group")  # a point and curves of their own
DRAFTERS = {"lm": "second model", "lookup": "look-up"}
OWN = {"group": {**PAPERS_GROUPS, SIZE: GroupsConfig().size}}  # other rules are as they are set


def _with(drafter: str) -> Where:
    """Speculation with it."""
    return at(MADE_BY, {"system": "speculative", "drafter.name": drafter})


def _rows() -> dict[str, Row]:
    return {
        f"{rule} {drafter}": Row(
            f"{RULES[rule]}, {DRAFTERS[drafter]}",
            {**_with(drafter), "rule.name": rule, **OWN.get(rule, {})},
            rule_above=rule == "exact",
        )
        for drafter in MADE_BY.values("drafter")
        for rule in MADE_BY.values("rule")
    }


def _scattered(drafter: str, style: int, without: Sequence[str] = ()) -> Curve:
    """Rules at one setting each."""
    rules = [rule for rule in MADE_BY.values("rule") if rule not in without]
    label = f"{'other ' if without else ''}rules, {DRAFTERS[drafter]}"
    return Curve(label, _with(drafter), "rule.name", rules, style, own=OWN, joined=False)


def _figure() -> FigureDefinition:
    second, *others = MADE_BY.values("drafter")
    model = _with(second)
    tolerances = [beta for beta in SSD.values(BETA) if beta]
    curves = [
        Curve("PCG, mean group size", {**model, **GROUPS}, SIZE, sizes(PCG), style=0),
        Curve("SSD, β", {**model, **TOLERANCE}, BETA, tolerances, style=1),
        _scattered(second, 2, SWEPT),
        *(_scattered(drafter, style) for style, drafter in enumerate(others, 3)),
    ]
    levels = (
        Level("exact rule", {**model, **EXACT}),
        Level("target alone", TARGET, {"acceptance_length": 1.0, "tv": 0.0, "kl": 0.0}),
    )

    def over_length(title: str, y: str) -> Axes:
        x = "acceptance_length"
        return Axes(title, y, curves, x=x, x_label="tokens a round", levels=levels)

    return FigureDefinition(
        name="frontier",
        title="Words and distortion against speed: every rule, every drafter",
        experiment=MADE_BY.name,
        axes=(
            over_length("Word errors", "wer"),
            over_length("Total variation from the target", "tv"),
            over_length("Divergence from the target", "kl"),
        ),
        notes=(
            "Beside the points are β, mean group sizes, rules; down and right is better.",
            (
                "Tokens a round and not the clock: rules and drafters without a native round are "
                "slower here than they need be."
            ),
            "The exact rule's law is the target's, whatever drafts; its errors differ by chance.",
        ),
    )


def report(_scale: Scale) -> Report:
    """The report; it has one scale."""
    first, *_ = rows = _rows()
    return Report(
        name="frontier",
        title="Every rule on one frontier",
        introduction=(
            "What a looser rule buys and what it costs: exact speculation, the papers' two rules "
            "and five of others at the settings that their authors chose, on the fine tiny ground, "
            "drafted by a second model and by look-up."
        ),
        tables=(
            TableDefinition(
                name="rules",
                title="Every rule with every drafter",
                experiment=MADE_BY.name,
                paper=NOT_PUBLISHED,
                rows=rows,
                panels=(
                    Panel("Speed, words, law", columns("acceptance_length speedup wer tv kl")),
                ),
            ),
        ),
        figures=(_figure(),),
        listening="",
        contrast=(first, "top lm"),
    )
