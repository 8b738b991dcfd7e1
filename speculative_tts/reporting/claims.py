"""What reproduces: the papers' claims, each as where a figure of ours must lie to show it.

Speculation's are held on the fine tiny ground with the papers' kind of draft (configs/experiment/
fine), those of several tokens a pass on the tiny VALL-E. Margins (`claimed`) and settings were
written down before the target and draft that ship were made, but after 80 utterances of the test
list were decoded with earlier ones.
"""

from speculative_tts.reporting import mtp, paper
from speculative_tts.reporting.claimed import LENGTH, OF_MTP, OF_PCG, OF_SSD
from speculative_tts.reporting.definitions import (
    Axes,
    ClaimTable,
    Curve,
    FigureDefinition,
    Level,
    Panel,
    Report,
    Row,
    TableDefinition,
    columns,
)
from speculative_tts.reporting.experiments import TINY, Experiment, Scale, method, read
from speculative_tts.reporting.needs import Nearest
from speculative_tts.reporting.pcg_figures import BETA, GROUPS, SIZE, SWAP, at
from speculative_tts.reporting.runs import Where
from speculative_tts.reporting.systems import EXACT, ITSELF, TARGET, TOLERANCE, against

ALONE, SSD, PCG, MATCHED, SWAPPED, MEL, FAR = (
    read(f"fine/{name}") for name in ("alone", "ssd", "pcg", "matched", "swap", "mel", "lookahead")
)
CLOCK = "speedup"
EQUAL = {LENGTH: "length", CLOCK: "clock"}


def _of(experiment: Experiment, where: Where, *, drafts: bool = True) -> Where:
    """A system of an experiment: its target's, and with its draft."""
    names = ("target.name", "draft.name") if drafts else ("target.name",)
    return {**where, **{name: experiment.settings[name] for name in names}}


def _speculation() -> dict[str, dict[str, Row]]:
    """The systems on the fine ground by experiment."""
    tolerance, groups = at(SSD, TOLERANCE), at(PCG, GROUPS)
    (far,) = FAR.values("lookahead")
    return {
        ALONE.name: {
            "target": Row("the target alone", _of(ALONE, TARGET, drafts=False)),
            "draft": Row("the draft alone", _of(ALONE, method("draft"))),
            "exact": Row("the exact rule", _of(ALONE, at(ALONE, EXACT))),
        },
        SSD.name: {
            f"ssd{beta:g}": Row(f"SSD (β = {beta:g})", _of(SSD, {**tolerance, BETA: float(beta)}))
            for beta in SSD.values(BETA)
        },
        PCG.name: {
            f"pcg{size:g}": Row(f"PCG (size {size:g})", _of(PCG, {**groups, SIZE: float(size)}))
            for size in PCG.values(SIZE)
        }
        | _as_fast(CLOCK),
        MATCHED.name: _as_fast(LENGTH),
        SWAPPED.name: {
            f"swap{size:g}": Row(
                f"swaps (size {size:g})", _of(SWAPPED, {**SWAP, SIZE: float(size)}, drafts=False)
            )
            for size in SWAPPED.values(SIZE)
        },
        MEL.name: {
            "mel": Row(
                "groups by mel at that length",
                _of(MEL, {**groups, "rule.groups.source": "mel"}),
                nearest=Nearest("pcg40", LENGTH),
            )
        },
        FAR.name: {
            "far": Row(
                f"SSD drafting {far}",
                _of(FAR, {**TOLERANCE, BETA: FAR.settings[BETA], "lookahead": far}),
            )
        },
    }


def _as_fast(quantity: str) -> dict[str, Row]:
    """PCG as fast as SSD with each tolerance, by this measure."""
    word, where = EQUAL[quantity], _of(PCG, at(PCG, GROUPS))
    return {
        f"pcg@{word}{beta:g}": Row(
            f"PCG at the {word} of SSD (β = {beta:g})",
            where,
            nearest=Nearest(f"ssd{beta:g}", quantity),
        )
        for beta in SSD.values(BETA)
    }


def _heads() -> dict[str, dict[str, Row]]:
    """The tiny VALL-E's systems: rows of the MTP paper's tables."""
    tables = {table.name: table for table in mtp.report(TINY).tables}
    first, second = tables["table1_valle"], tables["table2"]
    chosen = ("cached", "best4", "best8", "none8")
    target = {"target.name": first.rows["cached"].where["target.name"]}
    wide = second.rows["n8k25"]
    return {
        str(first.experiment): {key: first.rows[key] for key in chosen},
        str(second.experiment): {"wide": Row(wide.label, {**wide.where, **target})},
    }


def _matched(quantity: str, word: str) -> TableDefinition:
    """SSD at every tolerance, beside it the PCG that comes nearest by this measure of speed."""
    systems = _speculation()
    rows = systems[ALONE.name] | systems[SSD.name] | _as_fast(quantity)
    betas = [f"{beta:g}" for beta in SSD.values(BETA)]
    shown = columns("groups.mean_size acceptance_length speedup tv wer similarity")
    pairs = [
        Panel(
            f"At the {word} of SSD (β = {beta})",
            (*shown, *against(f"ssd{beta}", "wer", "similarity")),
            (f"ssd{beta}", f"pcg@{word}{beta}"),
        )
        for beta in betas
    ]
    return TableDefinition(
        name=f"matched_{word}",
        title=f"PCG beside SSD at equal {quantity.replace('_', ' ')}",
        experiment=(MATCHED if quantity == LENGTH else PCG).name,
        paper=paper.PCG_TABLE_1,
        rows=rows,
        panels=(
            Panel(
                "Alone and exactly",
                (*shown[1:], *against("target", "wer")),
                ("target", "draft", "exact"),
            ),
            *pairs,
        ),
        notes=(f"Of PCG's sizes the one whose {quantity.replace('_', ' ')} is nearest is taken.",),
    )


def _figure() -> FigureDefinition:
    """Both rules' word errors and distortion on the fine ground over what they buy."""
    curves = [
        Curve("PCG, mean group size", _of(PCG, at(PCG, GROUPS)), SIZE, PCG.values(SIZE), style=0),
        Curve("SSD, β", _of(SSD, at(SSD, TOLERANCE)), BETA, SSD.values(BETA), style=1),
    ]
    levels = (
        Level("exact rule", _of(ALONE, at(ALONE, EXACT))),
        Level("target alone", _of(ALONE, TARGET, drafts=False), ITSELF),
    )

    def over_speed(title: str, y: str) -> Axes:
        label = "speedup by acceptance length"
        return Axes(title, y, curves, x="speedup_by_length", x_label=label, levels=levels)

    return FigureDefinition(
        name="frontier",
        title="What SSD's tolerance and PCG's groups cost for the speed they buy",
        experiment=PCG.name,
        columns=2,
        axes=(over_speed("Word errors", "wer"), over_speed("Distortion", "tv")),
        notes=(
            "Beside the points are β and mean group sizes. Speeds by the clock: the claims' table.",
        ),
    )


def report(_scale: Scale) -> Report:
    """The report; it has one scale."""
    ground = _speculation()
    return Report(
        name="claims",
        title="What reproduces",
        introduction=(
            "The three papers' claims on the tiny systems: the paper's figure, ours with its "
            "interval, and a verdict by where that interval must lie."
        ),
        tables=tuple(_matched(*one) for one in EQUAL.items()),
        figures=(_figure(),),
        listening="",
        contrast=("", ""),
        claims=(
            ClaimTable("ssd", "SSD (Lin et al.)", ground, OF_SSD),
            ClaimTable("pcg", "PCG (Yanuka et al.)", ground, OF_PCG),
            ClaimTable("mtp", "MTP + Viterbi (Nguyen et al.)", _heads(), OF_MTP),
        ),
    )
