"""Choose the runs that a table or figure takes.

It says what it needs as conditions on the configuration (`Need`). What they leave open of a rule is
as `rule=<name>` sets it. All else that is configured
(models, list, limit, sampler, threads) is its runs' *context* and must agree, so that no table
mixes test lists or drafts unnoticed; where several contexts could fill it, the one that fills most
is taken and the others are named. Other hardware or code is named too (`origin.mixed`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from speculative_tts.assets import configuration
from speculative_tts.provenance import plain
from speculative_tts.reporting.remedy import decode_command, place
from speculative_tts.reporting.runs import Found, Run, Where, flatten, pooled
from speculative_tts.schema.kinds import kinds, own_keys
from speculative_tts.schema.rules import RuleConfig
from speculative_tts.typed import json_text

# May differ in a table.
BOOKKEEPING = (
    "out",
    "wandb",
    "baseline",
    "instrument",
    "timing",
    "processes",
    "chunk",
    "seed",
    "source",
    "runtime.warmup",
    *(f"viterbi.transitions.{key}" for key in ("codes", "workers", "cache", "path")),
)
MET = 0.03  # a searched figure further off than this, relatively, is not compared


@dataclass(frozen=True)
class Nearest:
    """The setting of a rule whose figure is nearest to that of another need."""

    key: str  # of the other need
    quantity: str


@dataclass(frozen=True)
class Need:
    """A system that a table shows: its name for people and the configuration it must have.

    What `where` leaves open of a rule is usual; with `nearest` groups of any size will do, and
    those are taken whose figure comes closest to another system's. Points of one `curve` are shown
    over the seeds that all of them have. `fixed` figures follow from definition.
    """

    label: str
    where: Where
    optional: bool = False
    nearest: Nearest | None = None
    curve: str | None = None
    fixed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """A needed system without a scored run, and the command that makes it, alone or with others."""

    label: str
    command: str

    def __str__(self) -> str:
        return f"{self.label}: {self.command}"


@dataclass(frozen=True)
class Chosen:
    """The runs of every need that has some, what is missing, and remarks for the user.

    `notes` say where a search for the nearest figure landed, `unmet` how far off those are that
    landed elsewhere.
    """

    filled: Mapping[str, Sequence[Run]]  # one of each seed
    missing: tuple[Missing, ...] = ()
    remarks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unmet: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def results(self) -> Mapping[str, Run]:
        """Figures of every need over its seeds; needs that share runs share them."""
        names = {key: tuple(run.name for run in runs) for key, runs in self.filled.items()}
        shared = {names[key]: runs for key, runs in self.filled.items()}
        made = {name: pooled(runs) for name, runs in shared.items()}
        return {key: made[name] for key, name in names.items()}

    @property
    def runs(self) -> list[Run]:
        """Every run behind the results."""
        return [run for runs in self.filled.values() for run in runs]

    @property
    def lacks(self) -> str:
        """The systems without a run in one line, with the first one's command; or empty."""
        if not self.missing:
            return ""
        first, *others = self.missing
        more = f" (and {len(others)} more)" if others else ""
        return f"{first.label}{more}: {first.command}"


def matches(config: Where, where: Where) -> bool:
    """Return True if a configuration has these values (one of a tuple), rounding aside."""
    return all(key in config and _equal(config[key], value) for key, value in where.items())


def _equal(a: Any, b: Any) -> bool:
    if isinstance(b, tuple):
        return any(_equal(a, one) for one in b)
    if isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b) < 1e-9
    return bool(a == b)


def fits(run: Run, need: Need) -> bool:
    """Return True for a run of the system; its rule at unusual settings is another system."""
    usual = _usual(need.where.get("rule.name"))
    left = {key: value for key, value in usual.items() if key in run.config}  # since older runs
    return matches(run.config, {**left, **need.where})


@cache
def _usual(rule: str | None) -> Where:
    """Return what `rule=<name>` sets, but for groups, which are named by size or theta."""
    known = kinds(RuleConfig)
    if rule not in known:
        return {}
    own = configuration(f"rule/{rule}")
    made = known[rule](**{key: own[key] for key in own.keys() & own_keys(known[rule])})
    flat = flatten(plain(made), "rule.")
    return {key: value for key, value in flat.items() if not _within(key, ("rule.groups",))}


def context(run: Run, varied: Iterable[str]) -> dict[str, Any]:
    """Return what must agree within a table: settings that the table does not vary.

    A run's configuration has the keys that it reads. Fingerprints of their weights, where
    provenance has them, are part of it.
    """
    free = (*BOOKKEEPING, *varied)
    weights = run.provenance.get("weights")
    weights = weights if isinstance(weights, dict) else {}
    read = {key.partition(".")[0] for key in run.config}
    known = {name: hash_ for name, hash_ in weights.items() if name in read}
    values = {**run.config, **flatten(known, "weights.")}
    return {
        key: value
        for key, value in values.items()
        if not _within(key.removeprefix("weights."), free)
    }


def _within(key: str, names: Iterable[str]) -> bool:
    """Return True if the key is one of these, or inside a group of them."""
    return any(key == name or key.startswith(f"{name}.") for name in names)


def choose(found: Found, needs: Mapping[str, Need], experiment: str | None = None) -> Chosen:
    """Return the figures of the runs of every need, all of one context.

    Of contexts, the one that fills most needs wins, then the one with most utterances, then with
    most runs. Of two runs with the same seed, the newer one is taken.
    """
    varied = {key for need in needs.values() for key in need.where} | {
        key for run in found.runs for key in run.config if key.startswith("rule.")
    }
    candidates = {
        key: [run for run in found.runs if fits(run, need)] for key, need in needs.items()
    }
    contexts = _distinct(context(run, varied) for runs in candidates.values() for run in runs)
    fillings = [_fill(needs, candidates, one, varied) for one in contexts]
    order = sorted(range(len(fillings)), key=lambda i: _worth(fillings[i]), reverse=True)
    filled = fillings[order[0]] if order else {}
    chosen = contexts[order[0]] if order else {}
    absent = [one for key, one in needs.items() if key not in filled and not one.optional]
    whole = experiment if len(absent) > 1 else None
    missing = tuple(
        Missing(one.label, decode_command(one.where, chosen, place(found.folder), whole))
        for one in absent
    )
    plain = {key: runs for key, runs in candidates.items() if needs[key].nearest is None}
    return Chosen(
        _of_common_seeds(needs, filled),
        missing,
        tuple(_remarks(plain, filled, chosen, varied)),
        tuple(_notes(needs, filled)),
        {
            key: found / goal - 1
            for key, (found, goal) in _searched(needs, filled).items()
            if not _met(found, goal)
        },
    )


def _distinct(contexts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return contexts without repetitions and without those that are part of another."""
    unique = list({json_text(one, sort_keys=True): one for one in contexts}.values())
    unique.sort(key=lambda one: (-len(one), json_text(one, sort_keys=True)))
    kept: list[dict[str, Any]] = []
    for one in unique:
        if not any(one.items() <= other.items() for other in kept):
            kept.append(one)
    return kept


def _agrees(run: Run, chosen: Where, varied: Iterable[str]) -> bool:
    return all(chosen.get(key, value) == value for key, value in context(run, varied).items())


def _fill(
    needs: Mapping[str, Need],
    candidates: Mapping[str, Sequence[Run]],
    chosen: Where,
    varied: Iterable[str],
) -> dict[str, tuple[Run, ...]]:
    filled: dict[str, tuple[Run, ...]] = {}
    for key in sorted(candidates, key=lambda key: needs[key].nearest is not None):
        runs = [run for run in sorted(candidates[key], key=_age) if _agrees(run, chosen, varied)]
        nearest = needs[key].nearest
        if nearest is None:
            found = _seeds(runs)
        else:
            found = _nearest(runs, filled.get(nearest.key, ()), nearest.quantity)
        if found:
            filled[key] = found
    return {key: filled[key] for key in candidates if key in filled}


def _seeds(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return one run for each seed, the last."""
    seeds = {run.seed: run for run in runs}
    return tuple(seeds[seed] for seed in sorted(seeds))


def _of_common_seeds(
    needs: Mapping[str, Need], filled: Mapping[str, tuple[Run, ...]]
) -> dict[str, tuple[Run, ...]]:
    """Drop from the points of a curve the seeds that another of its points lacks."""
    shared: dict[str | None, set[int]] = {}
    for key, runs in filled.items():
        seeds = {run.seed for run in runs}
        shared[needs[key].curve] = shared.get(needs[key].curve, seeds) & seeds

    def kept(key: str, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        seeds = shared[needs[key].curve] if needs[key].curve is not None else set()
        return tuple(run for run in runs if run.seed in seeds) if seeds else runs

    return {key: kept(key, runs) for key, runs in filled.items()}


def _nearest(runs: Sequence[Run], reference: Sequence[Run], quantity: str) -> tuple[Run, ...]:
    """Return the setting with most of the reference's seeds, then with the nearest figure."""
    goal, wanted = figure(reference, quantity), {run.seed for run in reference}
    settings: dict[str, list[Run]] = {}
    for run in runs:
        rule = {key: value for key, value in run.config.items() if key.startswith("rule.")}
        settings.setdefault(json_text(rule, sort_keys=True), []).append(run)
    groups = [_seeds([run for run in group if run.seed in wanted]) for group in settings.values()]
    known = [(group, value) for group in groups if (value := figure(group, quantity))]
    if not goal or not known:
        return ()
    return min(known, key=lambda one: (-len(one[0]), abs(math.log(one[1] / goal))))[0]


def figure(runs: Sequence[Run], quantity: str) -> float | None:
    """Average a summary's figure over the runs that have it; None where no run has."""
    values = [value for run in runs if (value := run.measure(quantity).value) is not None]
    return sum(values) / len(values) if values else None


def _age(run: Run) -> tuple[str, str]:
    return str(run.provenance.get("date", "")), run.name


def _worth(filled: Mapping[str, tuple[Run, ...]]) -> tuple[int, int, int]:
    runs = [run for group in filled.values() for run in group]
    return len(filled), sum(int(run.summary.get("n", 0)) for run in runs), len(runs)


def _searched(
    needs: Mapping[str, Need], filled: Mapping[str, Sequence[Run]]
) -> dict[str, tuple[float, float]]:
    """Return for every search for the nearest figure the one found and the one wanted."""
    searched = {}
    for key, need in needs.items():
        if need.nearest is not None and key in filled:
            pair = (filled[key], filled[need.nearest.key])
            found, goal = (figure(runs, need.nearest.quantity) for runs in pair)
            assert found is not None
            assert goal is not None
            searched[key] = (found, goal)
    return searched


def _met(found: float, goal: float) -> bool:
    return abs(found / goal - 1) <= MET


def _notes(needs: Mapping[str, Need], filled: Mapping[str, Sequence[Run]]) -> Iterable[str]:
    for key, (found, goal) in _searched(needs, filled).items():
        need, nearest = needs[key], needs[key].nearest
        assert nearest is not None
        near = "within 3 %" if _met(found, goal) else "further than 3 %, so not compared"
        yield (
            f"{need.label}: {nearest.quantity.replace('_', ' ')} {found:.3f}, that of "
            f"{needs[nearest.key].label} is {goal:.3f} ({100 * (found / goal - 1):+.1f} %), "
            f"{near}."
        )


def _remarks(
    candidates: Mapping[str, Sequence[Run]],
    filled: Mapping[str, tuple[Run, ...]],
    chosen: Where,
    varied: Iterable[str],
) -> Iterable[str]:
    used = {run.name for runs in filled.values() for run in runs}
    others = {run.name: run for runs in candidates.values() for run in runs}
    for name in sorted(set(others) - used):
        own = context(others[name], varied)
        keys = [key for key, value in own.items() if chosen.get(key, value) != value]
        why = ", ".join(f"{key}={own[key]}" for key in keys) or "a newer run has its seed"
        yield f"{name} left out: {why}"
