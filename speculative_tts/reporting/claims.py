"""What reproduces: the papers' claims, each as where a figure of ours must lie to show it.

Speculation's are held on the fine tiny ground with the papers' kind of draft (configs/experiment/
fine), those of several tokens a pass on the tiny VALL-E. Margins and settings stand here and in the
experiments; they were written down before the test list was decoded.
"""

from speculative_tts.reporting import mtp, paper
from speculative_tts.reporting.definitions import (
    Claim,
    ClaimTable,
    Panel,
    Report,
    Row,
    TableDefinition,
    columns,
)
from speculative_tts.reporting.experiments import TINY, Experiment, Scale, method, read
from speculative_tts.reporting.needs import Nearest
from speculative_tts.reporting.paper import PaperTable
from speculative_tts.reporting.pcg_figures import BETA, GROUPS, SIZE, SWAP, at
from speculative_tts.reporting.runs import Where
from speculative_tts.reporting.systems import EXACT, TARGET, TOLERANCE, against

ALONE, SSD, PCG, MATCHED, SWAPPED, MEL, FAR = (
    read(f"fine/{name}") for name in ("alone", "ssd", "pcg", "matched", "swap", "mel", "lookahead")
)
SAME = 2.0  # points of word errors that count as none: the swaps' goal
VOICE = -0.02  # of similarity
USLM_ALONE = paper.MTP_TABLE_1_USLM.text("baseline", "wer")
CLOCK, LENGTH = "speedup", "acceptance_length"
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


def _gap(table: PaperTable, of: str, minus: str, column: str, digits: int = 1) -> str:
    """A printed difference, and what it is of: `-4.7 (13.8, 18.5; Table 1)`."""
    gap = table.value(of, column) - table.value(minus, column)
    place = table.source.rpartition(", Table ")[2].partition(" (")[0]
    number = f"{gap:+.{digits}f}" if float(f"{gap:.{digits}f}") else f"{0:.{digits}f}"
    return f"{number} ({table.text(of, column)}, {table.text(minus, column)}; Table {place})"


OF_SSD = (
    Claim(
        "A draft alone errs far more than its target",
        _gap(paper.SSD_TABLE_1, "draft", "target", "wer"),
        "wer",
        "draft",
        "target",
        above=5.0,
    ),
    Claim(
        "The exact rule has the target's words (the law says so; the paper prints more errors)",
        _gap(paper.SSD_TABLE_3, "0.0", "target", "wer"),
        "wer",
        "exact",
        "target",
        above=-SAME,
        below=SAME,
    ),
    Claim(
        "The exact rule does not pay",
        f"{paper.SSD_TABLE_3.value('0.0', 'speedup'):.2f} (Table 3)",
        "speedup",
        "exact",
        below=1.1,
    ),
    Claim(
        "A tolerance makes rounds longer",
        "1.41 times as fast as the exact rule (Table 3)",
        LENGTH,
        "ssd0.4",
        "exact",
        above=0.0,
    ),
    Claim(
        "SSD is faster than the target alone",
        f"{paper.SSD_TABLE_1.value('ssd', 'speedup'):.2f} (Table 1)",
        "speedup",
        "ssd0.4",
        above=1.0,
    ),
    Claim(
        "A tolerance costs no words beside the exact rule",
        _gap(paper.SSD_TABLE_3, "0.4", "0.0", "wer"),
        "wer",
        "ssd0.4",
        "exact",
        below=SAME,
        why="A weak draft's tokens pass: PCG's paper, whose draft errs on 53 %, lost 7 points.",
    ),
    Claim(
        "SSD keeps the voice",
        _gap(paper.SSD_TABLE_1, "ssd", "target", "ss", 2),
        "similarity",
        "ssd0.4",
        "target",
        above=VOICE,
    ),
    Claim(
        "Drafting further than 3 does not pay",
        "LM-RTF rises again (Figure 3)",
        "speedup",
        "far",
        "ssd0.4",
        below=0.0,
    ),
)

OF_PCG = (
    Claim(
        "A tolerance costs words",
        _gap(paper.PCG_TABLE_1, "ssd", "exact", "wer"),
        "wer",
        "ssd0.3",
        "exact",
        above=0.0,
    ),
    Claim(
        "PCG has fewer word errors than SSD at equal acceptance length",
        _gap(paper.PCG_TABLE_1, "pcg", "ssd", "wer"),
        "wer",
        "pcg@length0.3",
        "ssd0.3",
        below=0.0,
    ),
    Claim(
        "The same at equal speed by the clock",
        _gap(paper.PCG_TABLE_1, "pcg", "ssd", "wer"),
        "wer",
        "pcg@clock0.3",
        "ssd0.3",
        below=0.0,
        why="The group rule takes longer than a tolerance here: larger groups stand beside it.",
    ),
    Claim(
        "PCG makes rounds longer",
        "1.43 times as fast as the exact rule (Table 1)",
        LENGTH,
        "pcg@length0.3",
        "exact",
        above=0.0,
    ),
    Claim(
        "PCG is faster than the target alone",
        f"{paper.PCG_TABLE_1.value('pcg', 'speedup')} (Table 1)",
        "speedup",
        "pcg@length0.3",
        above=1.0,
        why="On this CPU the group rule's work is not hidden behind the models' passes.",
    ),
    Claim(
        "PCG costs fewer words than half of what SSD does (5 points)",
        _gap(paper.PCG_TABLE_1, "pcg", "exact", "wer"),
        "wer",
        "pcg@length0.3",
        "exact",
        below=5.0,
    ),
    Claim(
        "PCG keeps the voice",
        _gap(paper.PCG_TABLE_1, "pcg", "exact", "sim"),
        "similarity",
        "pcg@length0.3",
        "exact",
        above=VOICE,
    ),
    Claim(
        "Swaps within groups of 4.5 tokens are benign",
        "+0.4 (Table 2)",
        "wer",
        "swap4.5",
        "target",
        below=SAME,
    ),
    Claim(
        "Swaps within groups of 10 tokens are benign",
        "+0.7 (Table 2)",
        "wer",
        "swap10",
        "target",
        below=SAME,
        why="8,192 codes have fewer near neighbours than the paper's 65,536.",
    ),
    Claim(
        "Larger groups make rounds longer",
        "1.18 to 1.23 times (Table 2)",
        LENGTH,
        "pcg10",
        "pcg4.5",
        above=0.0,
    ),
    Claim(
        "Groups by mel frames and by embeddings are equal",
        _gap(paper.PCG_TABLE_3, "mel", "embedding", "wer"),
        "wer",
        "mel",
        "pcg40",
        above=-SAME,
        below=SAME,
    ),
)

OF_MTP = (
    Claim(
        "8 heads are several times as fast as a target with a cache",
        f"{paper.MTP_TABLE_1_VALLE.text('ours', 'speedup')} without a cache (Table I)",
        "speedup",
        "best8",
        above=2.0,
    ),
    Claim(
        "8 heads by the best path keep the words",
        _gap(paper.MTP_TABLE_1_VALLE, "ours", "baseline", "wer"),
        "wer",
        "best8",
        "cached",
        below=SAME,
        why="Codes of 25 Hz: 8 tokens are 0.32 s here, 0.16 s in the paper.",
    ),
    Claim(
        "4 heads by the best path keep the words",
        f"{paper.MTP_TABLE_2.text('n4k3', 'wer')} (Table II; {USLM_ALONE} alone, Table I)",
        "wer",
        "best4",
        "cached",
        below=SAME,
    ),
    Claim(
        "The path search saves words that 8 heads by themselves lose",
        "nearly flat beside a quick fall (Figure 4)",
        "wer",
        "best8",
        "none8",
        below=0.0,
    ),
    Claim(
        "More candidates cost words",
        _gap(paper.MTP_TABLE_2, "n8k25", "n8k3", "wer"),
        "wer",
        "wide",
        "best8",
        above=0.0,
    ),
)


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


def report(_scale: Scale) -> Report:
    """The report; it has one scale."""
    ground = _speculation()
    return Report(
        name="claims",
        title="What reproduces",
        introduction=(
            "The three papers' claims on the tiny systems: the paper's figure, ours with its "
            "interval, and a verdict by a test that was stated before."
        ),
        tables=tuple(_matched(*one) for one in EQUAL.items()),
        figures=(),
        listening="",
        contrast=("", ""),
        claims=(
            ClaimTable("ssd", "SSD (Lin et al.)", ground, OF_SSD),
            ClaimTable("pcg", "PCG (Yanuka et al.)", ground, OF_PCG),
            ClaimTable("mtp", "MTP + Viterbi (Nguyen et al.)", _heads(), OF_MTP),
        ),
    )
