"""The PCG paper's report and its tables: what they show and which runs they need."""

from speculative_tts.reporting import paper
from speculative_tts.reporting.definitions import (
    Column,
    Panel,
    Report,
    Row,
    TableDefinition,
    columns,
)
from speculative_tts.reporting.experiments import Experiment, Scale, method
from speculative_tts.reporting.matched import EQUAL, matched
from speculative_tts.reporting.needs import Nearest
from speculative_tts.reporting.pcg_figures import (
    BETA,
    GROUPS,
    SIZE,
    SWAP,
    at,
    figure_2,
    figure_3,
    sizes,
)
from speculative_tts.reporting.systems import (
    EXACT,
    SPECULATION,
    TARGET,
    TARGET_ROW,
    TOLERANCE,
    against,
    of_methods,
)

BOTH = columns("speedup speedup_by_length")
QUALITY = columns("wer=wer cer=cer similarity=sim")
NMOS = columns("mos|dnsmos=nmos")  # by listeners, or by the judge where nobody listened
SPEED = (*SPECULATION, *columns("draft_share verify_share accept_share"))
GROUP_FACTS = columns(
    "groups.mean_size groups.theta groups.groups groups.median_size groups.max_size "
    "groups.singletons"
)


def _matched(experiment: Experiment) -> float:
    """What `match` says: SSD's beta of `0.3`, the size of `size:10.3`."""
    return float(str(experiment.settings["match"]).rpartition(":")[2])


def _tested(row: str, *metrics: str) -> tuple[Column, ...]:
    """Every test of the difference to a row: over utterances, and over seeds."""
    return tuple(
        Column(metric, against=row, test=test)
        for metric in metrics
        for test in ("bootstrap", "welch", "seeds")
    )


def _table_1(made_by: Experiment, matched: Experiment) -> TableDefinition:
    beta, k = _matched(matched), made_by.settings["lookahead"]
    alone = {
        "draft": Row("Draft alone", method("draft")),
        "target": TARGET_ROW,
        "exact": Row("Target + SD", at(made_by, EXACT)),
    }
    return TableDefinition(
        name="table1",
        title=f"PCG Table 1: quality at equal tokens a round (lookahead {k})",
        experiment=made_by.name,
        paper=paper.PCG_TABLE_1,
        spread="sd",
        rows={
            **of_methods(made_by, alone),
            "ssd": Row(f"Target + SSD (β = {beta:g})", {**at(made_by, TOLERANCE), BETA: beta}),
            "pcg": Row(
                "Target + PCG at SSD's tokens a round",
                at(matched, GROUPS),
                nearest=Nearest("ssd", "acceptance_length"),
            ),
        },
        panels=(
            Panel(
                "Beside the paper",
                (
                    *columns("speedup=speedup speedup_by_length"),
                    *QUALITY,
                    *NMOS,
                ),
            ),
            Panel("Where PCG landed", GROUP_FACTS, ("pcg",)),
            Panel("Speculation", SPEED, ("exact", "ssd", "pcg")),
            Panel(
                "PCG against SSD, paired",
                _tested("ssd", "wer", "cer", "similarity", "dnsmos"),
                ("pcg",),
            ),
            Panel(
                "Paired differences to the target alone",
                against("target", "wer", "cer", "similarity", "dnsmos"),
                ("draft", "exact", "ssd", "pcg"),
            ),
        ),
        notes=(
            (
                f"Tokens a round are those of SSD with the paper's β = {beta:g}; the mean group "
                f"size of PCG is searched for the same acceptance length (`match={beta:g}`). PCG's "
                "accept step takes longer than SSD's (accept %), so its speed is another."
            ),
            "The paper tests PCG against SSD with a t-test over seeds (p = 0.039).",
        ),
    )


def _table_2(made_by: Experiment, frontier: Experiment) -> TableDefinition:
    swaps, speculated = sizes(made_by), sizes(frontier)
    swapped = {f"{n:g}": Row(f"Mean group size {n:g}", {**SWAP, SIZE: n}) for n in swaps}
    where = at(frontier, GROUPS)
    verified = {
        f"pcg{n:g}": Row(f"PCG, mean group size {n:g}", {**where, SIZE: n}, paper=f"{n:g}")
        for n in speculated
    }
    none = {"swapped": 0.0}
    return TableDefinition(
        name="table2",
        title="PCG Table 2: the target's tokens swapped within their groups",
        experiment=made_by.name,
        paper=paper.PCG_TABLE_2,
        spread="sd",
        rows={"target": Row("Unswapped", TARGET, fixed=none), **swapped, **verified},
        panels=(
            Panel(
                "Swap test",
                (
                    *columns("groups.theta groups.mean_size swapped=swapped wer"),
                    Column("wer", "delta_wer", against="target"),
                    *against("target", "cer"),
                    Column("similarity", "delta_sim", against="target"),
                    *against("target", "dnsmos"),
                ),
                ("target", *swapped),
            ),
            Panel(
                "Speculation by the same groups",
                columns("speedup=speedup speedup_by_length acceptance_length wer tv accept_share"),
                tuple(verified),
            ),
        ),
        notes=(
            (
                "Every token whose own group has company is replaced by an alternative, a uniform "
                "draw from the other members, in sequences that the target made; then they are "
                "synthesised again."
            ),
            "The paper prints ΔWER as a fraction (+0.004 is +0.4 points).",
        ),
    )


def _table_3(made_by: Experiment) -> TableDefinition:
    size, k = _matched(made_by), made_by.settings["lookahead"]
    where = at(made_by, GROUPS)
    return TableDefinition(
        name="table3",
        title="PCG Table 3: groups by mel frames or by embeddings, at equal tokens a round "
        f"(lookahead {k})",
        experiment=made_by.name,
        paper=paper.PCG_TABLE_3,
        spread="sd",
        rows={
            "mel": Row(
                "Mel spectrogram",
                {**where, "rule.groups.source": "mel"},
                nearest=Nearest("embedding", "acceptance_length"),
            ),
            "embedding": Row("Cosine of embeddings", {**where, SIZE: size}),
        },
        panels=(
            Panel("Beside the paper", (*BOTH, *QUALITY, *columns("dnsmos"))),
            Panel("Groups", GROUP_FACTS, ("mel", "embedding")),
            Panel("Speculation", SPEED),
            Panel(
                "Embeddings against mel, paired",
                _tested("mel", "wer", "similarity"),
                ("embedding",),
            ),
        ),
        notes=(
            (
                "The paper says that both have the same speedup and not which: its word errors lie "
                "between those of SD and PCG in Table 1, about where 1.2x is, the speed of "
                f"mean size {size:g} in Table 2. So that size is taken for embeddings; that of mel "
                f"groups is searched for its acceptance length (`match=size:{size:g}`)."
            ),
            (
                "The paper does not say how it makes mel groups. Here a token is decoded between "
                "three tokens of silence on each side; the log-mel frames within its time are "
                "averaged, and the mean over all codes is taken away before cosines."
            ),
        ),
    )


def _groups(made_by: Experiment) -> TableDefinition:
    k, where = made_by.settings["lookahead"], at(made_by, GROUPS)
    return TableDefinition(
        name="groups",
        title=f"PCG groups: those of every mean size, and what their rule costs (lookahead {k})",
        experiment=made_by.name,
        paper=paper.PCG_TABLE_2,
        spread="sd",
        rows={f"{n:g}": Row(f"Mean size {n:g}", {**where, SIZE: n}) for n in sizes(made_by)},
        panels=(
            Panel(
                "Groups by cosine of the target's input embeddings",
                (
                    *GROUP_FACTS,
                    *columns("groups.bytes groups.likeness.spearman groups.likeness.percentile"),
                ),
            ),
            Panel("Speculation", (*BOTH, *SPEED, *columns("expected_trials"))),
        ),
        notes=(
            "The goal for the rule is at most 10 % of a round.",
            (
                "Thinning's draws: how often the paper's loop would draw after a rejection, 1 / TV "
                "of the groups' laws (in the paper about 3 at most on average). The rule here only "
                "sums."
            ),
        ),
    )


def report(scale: Scale) -> Report:
    """The report of the experiments at a scale."""
    names = "table1 table2 table3 matched figure2 figure2_ssd figure3 figure3_ssd figure3_exact"
    made = {name: scale.experiment("pcg", name) for name in names.split()}
    theta = scale.experiment("pcg", "theta") if scale.has("pcg", "theta") else None
    return Report(
        name="pcg",
        title="PCG: acceptance by acoustic similarity groups",
        introduction=(
            "A drafted token is accepted by the probability of a group of similar tokens, not by "
            "its own: the law of the emitted group is the target's, the token in it may be the "
            "draft's. Yanuka et al., arXiv 2511.13732."
        ),
        tables=(
            _table_1(made["table1"], made["matched"]),
            _table_2(made["table2"], made["figure2"]),
            _table_3(made["table3"]),
            _groups(made["figure2"]),
            *(
                matched(made["table1"], made["figure2_ssd"], made["matched"], quantity)
                for quantity in EQUAL
            ),
        ),
        figures=(
            figure_2(made["figure2"], made["figure2_ssd"], theta),
            figure_3(
                made["figure3"],
                made["figure3_ssd"],
                made["figure3_exact"],
                made["table1"].settings["lookahead"],
            ),
        ),
        listening="table1",
        contrast=("pcg", "ssd"),
        not_reproduced=(
            "NMOS of Table 1 before people have listened (sst-listen): DNSMOS stands beside it.",
        ),
    )
