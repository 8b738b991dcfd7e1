"""Read the reports, `papers/<name>.yaml.jinja`: YAML whose loops run over the experiments' sweeps.

A `where` may name a `method`, whose settings come first. Columns and claims are words that read as
the figure that they show: `wer=paper's column`, `wer-target` (a paired difference to that row),
`wer-target!welch` (another test's p), `speedup/uncached` (a ratio).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from speculative_tts.assets import configuration
from speculative_tts.provenance import plain
from speculative_tts.reporting.definitions import (
    Axes,
    Claim,
    ClaimKind,
    ClaimTable,
    Column,
    Curve,
    FigureDefinition,
    Panel,
    Published,
    Report,
    Row,
    SpeakerTable,
    TableDefinition,
)
from speculative_tts.reporting.experiments import TINY, Experiment, Scale, method
from speculative_tts.reporting.needs import Nearest, Need
from speculative_tts.reporting.paper import published
from speculative_tts.reporting.points import LOSS
from speculative_tts.reporting.runs import Where, flatten
from speculative_tts.schema.common import GroupsConfig
from speculative_tts.schema.drafters import RecurrentDrafterConfig

Raw = Mapping[str, Any]
COLUMN = re.compile(
    r"(?P<quantity>[^-=/!]+)(=(?P<paper>\w+))?"
    r"(-(?P<against>[^!]+))?(/(?P<over>\w+))?(!(?P<test>\w+))?"
)
PLAIN = ["name", "title", "introduction", "listening", "plotted", "contrast", "not_reproduced"]
CLAIMED = re.compile(r"(?P<quantity>\S+) (?P<of>[^-/]+)(-(?P<minus>.+))?(/(?P<over>.+))?")
TEMPLATES = Environment(
    loader=PackageLoader("speculative_tts.reporting", "papers"),
    undefined=StrictUndefined,
    line_statement_prefix="%",
)
TEMPLATES.filters["g"] = "{:g}".format
TEMPLATES.policies["json.dumps_kwargs"] = {}


@cache
def read_report(name: str, scale: Scale) -> Report:
    """Return the report of the experiments at a scale; some have one scale."""
    template = TEMPLATES.get_template(f"{name}.yaml.jinja", globals=_given(name, scale))
    raw = yaml.load(template.render(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return Report(
        tables=[_table(one) for one in (*raw["tables"], *raw.get("matched", ()))],
        figures=[_figure(one) for one in raw["figures"]],
        speakers=[SpeakerTable(**one | {"rows": _rows(one)}) for one in raw.get("speakers", ())],
        claims=[_claims(one, scale) for one in raw.get("claims", ()) if _had_by(one, scale)],
        **_some(raw, *PLAIN),
    )


def _given(paper: str, scale: Scale) -> dict[str, object]:
    """Return what a report's text may call."""
    return {
        "experiment": partial(scale.experiment, paper),
        "has": partial(scale.has, paper),
        "own": scale is not TINY,
        "read": scale.read,
        "method": method,
        "settings": lambda group, name: flatten(configuration(f"{group}/{name}"), f"{group}."),
        "recurrent": _recurrent,
        "published": published,
        "usual_size": GroupsConfig().size,
        "loss": LOSS,
    }


def _recurrent(drafter: str) -> Raw:
    """Return the codes and the number format of a recurrent drafter."""
    chosen = plain(RecurrentDrafterConfig(path="")) | configuration(f"drafter/{drafter}")
    return {key: chosen[key] for key in ("codes", "dtype")}


def _some(raw: Raw, *keys: str) -> dict[str, Any]:
    return {key: raw[key] for key in keys if key in raw}


def _where(raw: Raw) -> Where:
    own = {key: value for key, value in raw.items() if key != "method"}
    return method(raw["method"]) | own if "method" in raw else own


def _row(raw: Raw) -> Row:
    """Return a system; one that is `like` another report's has conditions of its own after it."""
    if "like" in raw:
        report, table, key = raw["like"]
        of = read_report(report, TINY)
        defined: Sequence[TableDefinition | ClaimTable] = [*of.tables, *of.claims]
        (rows,) = (one.rows for one in defined if one.name == table)
        return replace(rows[key].given(raw.get("where", {})), times=raw.get("times", ()))
    nearest = Nearest(*raw["nearest"]) if "nearest" in raw else None
    return Row(**{**raw, "where": _where(raw["where"]), "nearest": nearest})


def _rows(raw: Raw) -> dict[str, Row]:
    return {key: _row(one) for key, one in raw["rows"].items()}


def columns(text: str) -> tuple[Column, ...]:
    """Return the columns that words stand for; see the module."""
    return tuple(Column(**_parts(COLUMN, word)) for word in text.split())


def _parts(pattern: re.Pattern[str], text: str) -> dict[str, Any]:
    found = pattern.fullmatch(text)
    assert found, text
    return {name: part for name, part in found.groupdict().items() if part}


def _paper(raw: Raw) -> dict[str, Any]:
    return {"paper": published(raw["paper"])} if "paper" in raw else {}


def _table(raw: Raw) -> TableDefinition:
    panels = [
        Panel(one["title"], columns(one["columns"]), one["rows"].split() if "rows" in one else None)
        for one in raw["panels"]
    ]
    return TableDefinition(**{**raw, "rows": _rows(raw), "panels": panels, **_paper(raw)})


def _figure(raw: Raw) -> FigureDefinition:
    def axes(one: Raw) -> Axes:
        curves = [Curve(**curve | {"where": _where(curve["where"])}) for curve in one["curves"]]
        levels = [
            Need(**lev | {"where": _where(lev["where"])}, optional=True)
            for lev in one.get("levels", ())
        ]
        points = [Published(**some) for some in one.get("published", ())]
        return Axes(**{**one, "curves": curves, "levels": levels, "published": points})

    return FigureDefinition(**{**raw, "axes": list(map(axes, raw["axes"]))})


def _had_by(raw: Raw, scale: Scale) -> bool:
    """Return True if a scale's target can have a paper's claims; others need what is shipped."""
    return scale.target is None or all(rows.get("pinned") for rows in raw["systems"].values())


def _claims(raw: Raw, scale: Scale) -> ClaimTable:
    """Return a paper's claims; reasons are those of the fine target, another one has none."""
    systems = {name: _pinned(scale.read(name), rows) for name, rows in raw["systems"].items()}
    reasons = {} if scale.target is None else {"why": "", "agrees": ""}
    claims = [_claim({**one, **reasons}) for one in raw["claims"]]
    named = {"experiment": next(iter(systems)), **_paper(raw)}
    return ClaimTable(raw["name"], raw["title"], systems, claims, **named)


def _claim(raw: Raw) -> Claim:
    kind = ClaimKind.headline if "headline" in raw else ClaimKind[raw.get("kind", "effect")]
    own = _some(raw, "text", "paper", "above", "below", "why", "agrees", "headline")
    return Claim(**own, **_parts(CLAIMED, raw["figure"]), kind=kind)


def _pinned(experiment: Experiment, raw: Raw) -> dict[str, Row]:
    """Return an experiment's systems; `pinned` ones are of its target, sampler and draft."""
    rows = {key: _row(one) for key, one in raw.items() if key != "pinned"}
    if not raw.get("pinned"):
        return rows
    sampler = {k: v for k, v in experiment.settings.items() if k.startswith("sampling.")}

    def chosen(row: Row) -> Where:
        drafts = row.where["system"] not in ("target", "swap")
        names = ["target.name", *(["draft.name"] if drafts else [])]
        return experiment.some(*(name for name in names if name in experiment.settings)) | sampler

    return {key: row.given(chosen(row)) for key, row in rows.items()}
