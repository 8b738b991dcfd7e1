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
from speculative_tts.reporting.systems import TARGET

MADE_BY = read("frontier")
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
DRAFTERS = {"lm": "second model", "heads": "heads", "lookup": "look-up"}
ALONE = Level("target alone", TARGET, {"acceptance_length": 1.0, "tv": 0.0, "kl": 0.0})


def _rows() -> dict[str, Row]:
    where = {"system": "speculative", "lookahead": MADE_BY.settings["lookahead"]}
    return {
        f"{rule} {drafter}": Row(
            f"{RULES[rule]}, {DRAFTERS[drafter]}",
            {**where, "rule.name": rule, "drafter.name": drafter},
            rule_above=rule == "exact",
        )
        for drafter in MADE_BY.values("drafter")
        for rule in MADE_BY.values("rule")
    }


def _figure() -> FigureDefinition:
    rules = MADE_BY.values("rule")
    where = {"system": "speculative", "lookahead": MADE_BY.settings["lookahead"]}
    curves = [
        Curve(DRAFTERS[drafter], {**where, "drafter.name": drafter}, "rule.name", rules, style)
        for style, drafter in enumerate(MADE_BY.values("drafter"))
    ]

    def over_length(title: str, y: str) -> Axes:
        x = "acceptance_length"
        return Axes(title, y, curves, x=x, x_label="tokens a round", levels=(ALONE,))

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
            "Beside the points are the rules. A line joins a drafter's: down and right is better.",
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
            "and five of others, each with a second model, the target's own heads and look-up as "
            "the drafter, at the settings that their authors chose."
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
