"""SSD and PCG at one speed: the systems of both, and the table that sets them side by side."""

from speculative_tts.reporting import paper
from speculative_tts.reporting.definitions import Panel, Row, TableDefinition, columns
from speculative_tts.reporting.experiments import Experiment, method
from speculative_tts.reporting.needs import Nearest
from speculative_tts.reporting.pcg_figures import BETA, GROUPS, SIZE, at, sizes
from speculative_tts.reporting.systems import EXACT, TARGET, TOLERANCE, against

LENGTH, CLOCK = "acceptance_length", "speedup"
EQUAL = {LENGTH: "length", CLOCK: "clock"}
Rows = dict[str, Row]


def alone(made_by: Experiment) -> Rows:
    """What both are held beside."""
    return {
        "target": Row("the target alone", TARGET),
        "draft": Row("the draft alone", method("draft")),
        "exact": Row("the exact rule", at(made_by, EXACT)),
    }


def tolerances(made_by: Experiment) -> Rows:
    """SSD with each tolerance: `ssd0.3`."""
    where = at(made_by, TOLERANCE)
    return {
        f"ssd{beta:g}": Row(f"SSD (β = {beta:g})", {**where, BETA: float(beta)})
        for beta in made_by.values(BETA)
        if beta
    }


def groups(made_by: Experiment) -> Rows:
    """PCG with groups of each mean size: `pcg40`."""
    where = at(made_by, GROUPS)
    return {
        f"pcg{size:g}": Row(f"PCG (size {size:g})", {**where, SIZE: size})
        for size in sizes(made_by)
    }


def as_fast(pcg: Experiment, ssd: Experiment, quantity: str) -> Rows:
    """PCG as fast as SSD with each tolerance, by this measure: `pcg@length0.3`."""
    word, where = EQUAL[quantity], at(pcg, GROUPS)
    return {
        f"pcg@{word}{key.removeprefix('ssd')}": Row(
            f"PCG at the {word} of {row.label}", where, nearest=Nearest(key, quantity)
        )
        for key, row in tolerances(ssd).items()
    }


def matched(exact: Experiment, ssd: Experiment, pcg: Experiment, quantity: str) -> TableDefinition:
    """SSD at every tolerance, beside it the PCG that comes nearest by this measure of speed."""
    word, named = EQUAL[quantity], quantity.replace("_", " ")
    shown = columns("groups.mean_size acceptance_length speedup tv wer similarity")
    pairs = [
        Panel(
            f"At the {word} of {row.label}",
            (*shown, *against(key, "wer", "similarity")),
            (key, f"pcg@{word}{key.removeprefix('ssd')}"),
        )
        for key, row in tolerances(ssd).items()
    ]
    panel = Panel(
        "Alone and exactly",
        (*shown[1:], *against("target", "wer")),
        ("target", "draft", "exact"),
    )
    return TableDefinition(
        name=f"matched_{word}",
        title=f"PCG beside SSD at equal {named}",
        experiment=pcg.name,
        paper=paper.PCG_TABLE_1,
        rows=alone(exact) | tolerances(ssd) | as_fast(pcg, ssd, quantity),
        panels=(panel, *pairs),
        notes=(f"Of PCG's sizes the one whose {named} is nearest is taken.",),
    )
