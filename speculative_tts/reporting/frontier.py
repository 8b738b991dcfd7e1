"""Every rule with every drafter: words and distortion against tokens a round."""

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
from speculative_tts.reporting.systems import EXACT, TOLERANCE
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
DRAFTERS = {"lm": "second model", "recurrent": "recurrent layer", "lookup": "look-up"}
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


def _figure() -> FigureDefinition:
    model = _with(MADE_BY.values("drafter")[0])
    others = [rule for rule in MADE_BY.values("rule") if rule not in SWEPT]
    tolerances = [beta for beta in SSD.values(BETA) if beta]
    curves = [
        Curve("PCG, mean group size", {**model, **GROUPS}, SIZE, sizes(PCG), style=0),
        Curve("SSD, β", {**model, **TOLERANCE}, BETA, tolerances, style=1),
        Curve("rules of others", model, "rule.name", others, style=2, joined=False),
    ]
    levels = (Level("exact rule", {**model, **EXACT}),)

    def over_length(title: str, y: str) -> Axes:
        x = "acceptance_length"
        return Axes(title, y, curves, x=x, x_label="tokens a round", levels=levels)

    return FigureDefinition(
        name="frontier",
        title="Words and distortion against speed: every rule, drafted by a second model",
        experiment=MADE_BY.name,
        columns=2,
        axes=(
            over_length("Word errors", "wer"),
            over_length("Total variation from the target", "tv"),
        ),
        notes=(
            "Beside the points are β, mean group sizes, rules; down and right is better.",
            "The target alone emits one token a round, look-up hardly more: the table has it.",
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
