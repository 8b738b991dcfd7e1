"""What reproduces: the papers' claims, each as where a figure of ours must lie to show it.

They stand on the runs of the papers' tables and figures, nothing else is decoded: speculation's on
the fine target with the papers' kind of draft, PCG's drawn by its paper's sampler, those of several
tokens a pass on the tiny VALL-E. What was known when the margins (`claimed`) were set, KNOWN of
`fill_claims` says.
"""

from dataclasses import replace

from speculative_tts.reporting import drafters, mtp, paper
from speculative_tts.reporting.claimed import OF_MTP, OF_PCG, OF_SSD, OURS
from speculative_tts.reporting.definitions import ClaimTable, Report, Row
from speculative_tts.reporting.experiments import TINY, Experiment, Scale, read
from speculative_tts.reporting.matched import (
    CLOCK,
    LENGTH,
    Rows,
    alone,
    as_fast,
    groups,
    tolerances,
)
from speculative_tts.reporting.needs import Nearest
from speculative_tts.reporting.pcg_figures import GROUPS, SIZE, SWAP, at, sizes
from speculative_tts.reporting.systems import TOLERANCE

FAR = 6  # tokens drafted a round: twice the papers'


def _of(experiment: Experiment, rows: Rows) -> dict[str, Rows]:
    """Systems of an experiment: its target's, drawn by its sampler, and with its draft."""
    sampler = {k: v for k, v in experiment.settings.items() if k.startswith("sampling.")}

    def pinned(row: Row) -> Row:
        drafts = row.where["system"] not in ("target", "swap")
        names = ("target.name", "draft.name") if drafts else ("target.name",)
        chosen = {name: experiment.settings[name] for name in names}
        return replace(row, where={**row.where, **chosen, **sampler})

    return {experiment.name: {key: pinned(row) for key, row in rows.items()}}


def _of_ssd() -> dict[str, Rows]:
    """What the claims of SSD's paper speak of, by experiment."""
    table_1, table_3, figure_3 = (read(f"ssd/{name}") for name in ("table1", "table3", "figure3"))
    far = {"far": Row(f"SSD drafting {FAR}", {**TOLERANCE, "lookahead": FAR})}
    return _of(table_1, alone(table_1)) | _of(table_3, tolerances(table_3)) | _of(figure_3, far)


def _of_pcg() -> dict[str, Rows]:
    """What those of PCG's paper speak of: drawn by its sampler."""
    names = ["table1", "figure2_ssd", "figure2", "matched", "table2", "table3"]
    table_1, ssd, pcg, searched, table_2, table_3 = (read(f"pcg/{name}") for name in names)
    by_mel = Row(
        "groups by mel at that length",
        {**at(table_3, GROUPS), "rule.groups.source": "mel"},
        nearest=Nearest("pcg10.3", LENGTH),
    )
    swaps = {f"swap{n:g}": Row(f"swaps (size {n:g})", {**SWAP, SIZE: n}) for n in sizes(table_2)}
    return {
        **_of(table_1, alone(table_1)),
        **_of(ssd, tolerances(ssd)),
        **_of(pcg, groups(pcg) | as_fast(pcg, ssd, CLOCK)),
        **_of(searched, as_fast(searched, ssd, LENGTH)),
        **_of(table_2, swaps),
        **_of(table_3, {"mel": by_mel}),
    }


def _heads() -> dict[str, dict[str, Row]]:
    """The tiny VALL-E's systems: rows of the MTP paper's tables."""
    tables = {table.name: table for table in mtp.report(TINY).tables}
    first, second = tables["table1_valle"], tables["table2"]
    chosen = ("cached", "uncached", "best4", "best8", "none8")
    bare = read("mtp/uncached_heads_valle")
    target = {"target.name": first.rows["cached"].where["target.name"]}
    wide = second.rows["n8k25"]
    return {
        str(first.experiment): {key: first.rows[key] for key in chosen},
        bare.name: {"bare8": first.rows["bare8"]},
        str(second.experiment): {"wide": Row(wide.label, {**wide.where, **target})},
    }


def _of_ours() -> dict[str, dict[str, Row]]:
    """The fastest settings of the recurrent layer, by experiment."""
    rows = drafters.words().rows
    return {
        "drafters/words": {key: rows[key] for key in ("target", "ssd")},
        "drafters/words_pcg": {"pcg": rows["pcg"]},
    }


def report(_scale: Scale) -> Report:
    """The report; it has one scale."""
    return Report(
        name="claims",
        title="What reproduces",
        introduction=(
            "The three papers' claims on the tiny systems: the paper's figure, ours with its "
            "interval, and a verdict by where that interval must lie."
        ),
        tables=(),
        figures=(),
        listening="",
        contrast=("", ""),
        claims=(
            ClaimTable("ssd", "SSD (Lin et al.)", _of_ssd(), OF_SSD, paper.SSD_TABLE_1),
            ClaimTable("pcg", "PCG (Yanuka et al.)", _of_pcg(), OF_PCG, paper.PCG_TABLE_1),
            ClaimTable(
                "mtp",
                "MTP + Viterbi (Nguyen et al.)",
                _heads(),
                OF_MTP,
                paper.MTP_TABLE_1_VALLE,
            ),
            ClaimTable("ours", "This project", _of_ours(), OURS, drafters.NOT_PUBLISHED),
        ),
    )
