"""Every rule with every drafter: words and distortion against tokens a round."""

from dataclasses import replace
from itertools import product
from typing import Any

from speculative_tts.assets import configuration
from speculative_tts.provenance import plain
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
from speculative_tts.reporting.drafters import CHOSEN, MODE
from speculative_tts.reporting.experiments import Experiment, Scale, read
from speculative_tts.reporting.paper import PaperTable
from speculative_tts.reporting.pcg_figures import BETA, GROUPS, PAPERS_GROUPS, SIZE, at, sizes
from speculative_tts.reporting.runs import Where
from speculative_tts.reporting.systems import EXACT, TARGET, TARGET_LEVEL, TARGET_ROW, TOLERANCE
from speculative_tts.schema.common import GroupsConfig
from speculative_tts.schema.drafters import RecurrentDrafterConfig

MADE_BY, SSD, PCG = (read(name) for name in ("frontier", "ssd/table3", "ssd/groups"))
RATIO, BLOCK, FREQUENT = (read(f"frontier_{name}") for name in ("ratio", "block", "frequent"))
SMALL, HEADS = (read(f"frontier_{name}") for name in ("small", "heads"))  # of the small target
NOT_PUBLISHED = PaperTable(source="", measured={}, rows={})  # no paper has them side by side
SEED = {"seed": 0}  # of every row: the papers' own systems have more in that folder
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
DRAFTERS = {
    "lm": "second model",
    "recurrent": "recurrent layer",
    "frequent": "recurrent layer, frequent codes",
    "lookup": "look-up",
    "heads": "heads",
}
SHOWN = (*SWEPT, "typical")  # of the small target, beside the table of all
LAYERS = ("recurrent", "frequent")  # of the drafters
PAYS = ("lm", "recurrent")  # of the drafters
SWEEPS = (  # the papers' rules, what they sweep, and how they are found
    ("PCG", "mean group size", GROUPS, SIZE, sizes(PCG)),
    ("SSD", "β", TOLERANCE, BETA, [beta for beta in SSD.values(BETA) if beta]),
)
SWEPT_KEYS = ("rule", "drafter")  # by every experiment; what else one sweeps is a variant
OWN = {"group": {**PAPERS_GROUPS, SIZE: GroupsConfig().size}}  # other rules are as they are set


def _alone(made_by: Experiment) -> Where:
    """Its target by itself."""
    return {**TARGET, **SEED, "target.name": made_by.target}


def _with(drafter: str, made_by: Experiment = MADE_BY) -> Where:
    """Speculation of a target with it; of a recurrent layer with its codes and number format."""
    own = {"name": drafter}
    if drafter in LAYERS:
        chosen = plain(RecurrentDrafterConfig(path="")) | configuration(f"drafter/{drafter}")
        own = {"name": "recurrent"} | {key: chosen[key] for key in ("codes", "dtype")}
    named = {f"drafter.{key}": value for key, value in own.items()}
    where = {"system": "speculative", "target.name": made_by.target, **named, **SEED}
    return at(made_by, where)


def _variants(made_by: Experiment) -> list[dict[str, Any]]:
    """What it sweeps beside rules and drafters."""
    keys = [key for key in made_by.grid if key not in SWEPT_KEYS]
    return [dict(zip(keys, found, strict=True)) for found in product(*map(made_by.values, keys))]


def _rows() -> dict[str, Row]:
    ratio = _rows_of(RATIO, " bounded by a ratio (LANTERN++)")
    blocks = _rows_of(BLOCK, ", whole drafts")
    return _rows_of(MADE_BY) | _rows_of(FREQUENT) | ratio | blocks


def _rows_of(made_by: Experiment, called: str = "") -> dict[str, Row]:
    """Its rules by its drafters, once a variant."""
    first, *_ = made_by.values("rule")
    rows = {}
    for own in _variants(made_by):
        mode = own.get(MODE)
        how, named = (f" ({CHOSEN[mode]})", [mode]) if mode else ("", [*own])
        for drafter in made_by.values("drafter"):
            for rule in made_by.values("rule"):
                rows[" ".join([rule, *named, drafter])] = Row(
                    f"{RULES[rule]}{called}, {DRAFTERS[drafter]}{how}",
                    {**_with(drafter, made_by), "rule.name": rule, **OWN.get(rule, {}), **own},
                    rule_above=rule == first,
                )
    return rows


def _sweep(drafter: str, style: int, by: str = "") -> list[Curve]:
    """The papers' rules over their settings."""
    where = _with(drafter)
    return [
        Curve(
            f"{rule}{by}, {swept.removeprefix('mean group ')}",
            {**where, **of_rule},
            key,
            values,
            style=style + n,
        )
        for n, (rule, swept, of_rule, key, values) in enumerate(SWEEPS)
    ]


def _swept_rows() -> dict[str, Row]:
    """The points of the sweeps, below the exact rule's."""
    found = {"target": replace(TARGET_ROW, where=_alone(MADE_BY))}
    for drafter in PAYS:
        label, where = DRAFTERS[drafter], _with(drafter)
        found[f"exact {drafter}"] = Row(f"exact, {label}", {**where, **EXACT}, rule_above=True)
        for rule, swept, of_rule, key, values in SWEEPS:
            for value in values:
                row = Row(f"{rule}, {swept} {value:g}, {label}", {**where, **of_rule, key: value})
                found[f"{key} {value:g} {drafter}"] = row
    return found


def _figure() -> FigureDefinition:
    model, layer = map(_with, PAYS)
    others = [rule for rule in MADE_BY.values("rule") if rule not in SWEPT]
    of_model = _sweep("lm", 0)
    of_others = Curve("rules of others", model, "rule.name", others, style=4, joined=False)
    exact = Level("exact", {**model, **EXACT})

    def over_length(title: str, y: str) -> Axes:
        return Axes(
            title,
            y,
            [*of_model, of_others],
            x="acceptance_length",
            x_label="tokens a round",
            levels=(exact,),
        )

    return FigureDefinition(
        name="frontier",
        title="Words and distortion against speed: every rule",
        experiment=MADE_BY.name,
        axes=(
            Axes(
                "Word errors by the clock",
                "wer",
                [*of_model, *_sweep("recurrent", 2, ", recurrent layer")],
                x="speedup",
                x_label="speedup over the target alone (measured)",
                levels=(
                    exact,
                    Level("exact, recurrent layer", {**layer, **EXACT}),
                    replace(TARGET_LEVEL, where=_alone(MADE_BY)),
                ),
            ),
            over_length("Word errors", "wer"),
            over_length("Total variation from the target", "tv"),
        ),
        notes=(
            (
                "Beside the points are β, mean group sizes, rules; down and right is better. A "
                "second model drafts or, where it says so, the recurrent layer."
            ),
            "The target alone emits one token a round, look-up hardly more: the table has it.",
            (
                "Others' rules stand over tokens a round and not the clock: without a native round "
                "they are slower here than they need be."
            ),
            "The exact rule's law is the target's, whatever drafts; its errors differ by chance.",
        ),
    )


def _small_figure() -> FigureDefinition:
    """The papers' rules and Medusa's by each drafter of the small target."""
    drafters = {DRAFTERS[one]: _with(one, SMALL) for one in SMALL.values("drafter")}
    heads = {
        f"heads ({CHOSEN[own[MODE]]})": {**_with("heads", HEADS), **own} for own in _variants(HEADS)
    }
    curves = [
        Curve(label, where, "rule.name", SHOWN, style=style, joined=False)
        for style, (label, where) in enumerate((drafters | heads).items())
    ]
    axes = {"Word errors": "wer", "Total variation from the target": "tv"}
    return FigureDefinition(
        name="frontier_small",
        title="Words and distortion against speed: the small target, which has heads",
        experiment=SMALL.name,
        axes=[
            Axes(title, y, curves, x="acceptance_length", x_label="tokens a round")
            for title, y in axes.items()
        ],
        notes=("Beside the points are rules (others: the table); down and right is better.",),
    )


def report(_scale: Scale) -> Report:
    """The report; it has one scale."""
    first, *_ = rows = _rows()
    return Report(
        name="frontier",
        title="Every rule on one frontier",
        introduction=(
            "What a looser rule buys and what it costs: exact speculation, the papers' two rules "
            "and those of others at the settings that their authors chose, on the fine ground, "
            "drafted by a second model, by a recurrent layer on the target's states and by "
            "look-up; and on the small target, which has heads, by these."
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
            TableDefinition(
                name="swept",
                title="The papers' rules over their settings, by the two drafters that pay",
                experiment=MADE_BY.name,
                paper=NOT_PUBLISHED,
                rows=_swept_rows(),
                panels=(Panel("Speed, words, law", columns("acceptance_length speedup wer tv")),),
            ),
            TableDefinition(
                name="small_rules",
                title="Every rule with every drafter of the small target, which has heads",
                experiment=SMALL.name,
                paper=NOT_PUBLISHED,
                rows={"target": replace(TARGET_ROW, where=_alone(SMALL))}
                | _rows_of(SMALL)
                | _rows_of(HEADS),
                panels=(
                    Panel("Speed, words, law", columns("acceptance_length speedup wer tv kl")),
                ),
            ),
        ),
        figures=(_figure(), _small_figure()),
        listening="",
        contrast=(first, "top lm"),
    )
