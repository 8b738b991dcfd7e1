"""Write the differences between systems that pages name and no other table has.

    python scripts/differences.py results   # writes results/differences.md and .csv

Both systems of a difference are runs whose scores ship (`scores.csv` names those of tables); a
difference is paired by utterance. The pages link to the table that this makes.
"""

import sys
from pathlib import Path
from typing import NamedTuple

from keep_runs import archive
from score_index import read_scores, unpacked

from speculative_tts.evaluation.compare import compare_rows
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.summary import Bootstrap
from speculative_tts.files import write_atomic
from speculative_tts.reporting import tables

NAME = "differences"
WER, TOKENS = "wer", "acceptance_length"
System = tuple[str, ...]  # a folder, or its pattern, and the beginnings of its runs' names


def runs(folder: str, name: str, *endings: str) -> System:
    """Return a system whose runs' names begin with `name` and an ending."""
    return folder, *(f"{name}-{one}" for one in endings)


SENTENCES, LAYER = "sentences", "sentences/recurrent"
FINE, FEW_HOURS = "fine_drafts", "ssd_draft"
EXACT, ALONE = (SENTENCES, "speculative-exact-k3-s0-51af5691"), (SENTENCES, "target-s0-")
BASE, BASE_ALONE = "sentences/base", ("sentences/base", "target-s0-")
BASE_CODEC, BASE_SPOKEN = (BASE, "codec-s0-"), (BASE, "reference-s0-")
BASE_EXACT, BASE_SSD4 = (
    (BASE, "speculative-exact-k3-s0-"),
    (BASE, "speculative-tolerance-b0.4-k3-s0-"),
)
HINT_SSD2, LAYER_SSD4 = ((LAYER, f"speculative-tolerance-b{beta}-") for beta in (0.2, 0.4))
SSD2 = "speculative-tolerance-b0.2-k3"  # three seeds; the layer's lie in two folders
LAYER_SSD2 = runs("sentences/*", f"{SSD2}-recurrent", "s0-750cc09a", "s1", "s2")
LAYER_PCG37, LAYER_PCG230 = ((LAYER, f"speculative-group-m{size}-") for size in (37.5, 230))
DRAFT_SSD2 = runs(SENTENCES, SSD2, "s0-26374dc8", "s1", "s2")
DRAFT_SSD4 = (SENTENCES, "speculative-tolerance-b0.4-k3-s0-4b3a99cf")
DRAFT_PCG230 = (SENTENCES, "speculative-group-m230-k3-s0-")
# SSD's own draft after 12,800 recordings (half of 15 hours) and after 1.4 hours; draft=paper: alone
OWN, FEW, PAPER = (
    (FINE, "draft-s0-b9ead46c"),
    (FEW_HOURS, "draft-s0-af12c9f7"),
    (FEW_HOURS, "draft-s0-7dea2ab2"),
)
OWN_EXACT = (FINE, "speculative-exact-k3-s0-c52ea4c1")
FEW_EXACT = (FEW_HOURS, "speculative-exact-k3-s0-8f380c75")
OWN_SSD4 = (FINE, "speculative-tolerance-b0.4-k3-s0-fc62cd6d")
FEW_SSD4 = (FEW_HOURS, "speculative-tolerance-b0.4-k3-s0-87e469c8")
# eight heads of the small target, trained after it: a best path draws nothing, so one run is all
FROZEN_PATH = ("mtp", "multi_token-n8-best-union-k3-s0-034e0998")
FROZEN_HEADS = runs("mtp", "multi_token-n8-none", "s0-e9fe9d00", "s1-d9e2de8a", "s2-0b9f9855")
BY_BASE = {  # how runs' names begin
    "ssd": "speculative-tolerance-b0.4-k3",
    "exact": "speculative-exact-k3",
    "target": "target",
}


def by_base(pair: str, *seeds: int) -> tuple[System, System]:
    """Return the two systems of a pair, such as "ssd exact", heard by base, of these seeds."""
    first, other = (
        runs("sentences/base*", BY_BASE[name], *(f"s{seed}" for seed in seeds))
        for name in pair.split()
    )
    return first, other


DRAFT_SSD1 = runs(SENTENCES, "speculative-tolerance-b0.1-k3", "s0", "s1", "s2")
DRAFT_PCG16 = runs(SENTENCES, "speculative-group-m16-k3", "s0", "s1", "s2")
DRAFT_SSD3 = runs(SENTENCES, "speculative-tolerance-b0.3-k3", "s0")
DRAFT_PCG37 = runs(SENTENCES, "speculative-group-m37.5-k3", "s0")
EQUAL = "sentences/layer"  # groups whose rounds are as long as a tolerance's
EQUAL_PAIR = (EQUAL, "speculative-group-m24-"), (EQUAL, "speculative-tolerance-b0.2-")
TRAINED = "sentences/seeds"  # drafts of several training seeds; those of 1 and 2:
TRAINED_SSD2 = runs(TRAINED, "speculative-tolerance-b0.2-k3-s0", "66f56318", "dc27b92a")
TRAINED_SSD4 = runs(TRAINED, "speculative-tolerance-b0.4-k3-s0", "8d0886d0", "27f628bc")
TRAINED_PCG37 = runs(TRAINED, "speculative-group-m37.5-k3-s0", "0a10b67d", "1c8c06b9")
TRAINED_PCG230 = runs(TRAINED, "speculative-group-m230-k3-s0", "04d8182e", "d212e914")
RETEST = "registered/retest"  # the second registered list, three seeds
RETEST_ALONE = runs(RETEST, "target", "s0-5b9a8df2", "s1-ca39653a", "s2-801a0ab2")
RETEST_EXACT = runs(RETEST, "speculative-exact-k3", "s0-c9a8a5ef", "s1", "s2")
RETEST_SSD = {  # by the target's own sampler; other runs of these tolerances are PCG's paper's
    0.1: ("s0-045311e2", "s1-78cf5444", "s2-c5540686"),
    0.2: ("s0-aca93e4b", "s1-2d52f1cf", "s2-2f581988"),
    0.4: ("s0-2063331e", "s1", "s2"),
}
EARLY_EXACT = runs("registered/ssd", "speculative-exact-k3", "s0", "s1", "s2")  # the first list's
EXACT35 = runs("ssd", "speculative-exact-k3", "s0", "s1", "s2")  # of the test list
SSD3 = "speculative-tolerance-b0.3-k3"
DRAFTS = {  # of the test list: word errors alone, and SSD at 0.3
    "even12": ("even12 (7 % alone, one seed)", (f"{FINE}/even", f"{SSD3}-s0-7233ef4a")),
    "even7": ("even7 (16 % alone, one seed)", (f"{FINE}/even", f"{SSD3}-s0-be52f212")),
    "even9": ("even9 (27 % alone, one seed)", (f"{FINE}/even", f"{SSD3}-s0-8faf28d5")),
    "even10": ("even10 (32 % alone, one seed)", (f"{FINE}/even", f"{SSD3}-s0-09b4887a")),
    "paper": ("`draft=paper` (45 % alone, three seeds)", runs("ssd", SSD3, "s0", "s1", "s2")),
    "even8": ("even8 (60 % alone, one seed)", (f"{FINE}/even", f"{SSD3}-s0-18061d3a")),
}
LONG, SHORT = "`ssd-seed0` (about 7 hours, 800 steps)", "`ssd-long` (1.4 hours, 640 steps)"


class Pair(NamedTuple):
    """Two systems: `first` minus `other`, in one metric or in several."""

    label: str
    first: System
    other: System
    metrics: tuple[str, ...] = (WER,)


def rules(label: str, first: System, other: System) -> Pair:
    """Return a pair of rules, whose tokens per target pass say whether they are equally long."""
    return Pair(label, first, other, (WER, TOKENS))


def beside_both(
    key: str, label: str, first: System, target: System, exact: System
) -> dict[str, Pair]:
    """Return a system minus the target, the exact rule, which has its distribution, and both."""
    both = (*target, *exact[1:])
    return {
        key: Pair(f"{label} minus target", first, target),
        f"{key}_exact": Pair(f"{label} minus exact", first, exact),
        f"{key}_both": Pair(f"{label} minus the mean of target and exact", first, both),
    }


def base_seeds(key: str, label: str, pair: str, *choices: tuple[int, ...]) -> dict[str, Pair]:
    """Return a pair heard by Whisper base for each choice of seeds."""
    return {
        f"{key}_{'_'.join(map(str, seeds))}": Pair(
            f"{label}, {'seeds' if len(seeds) > 1 else 'seed'} {', '.join(map(str, seeds))}",
            *by_base(pair, *seeds),
        )
        for seeds in choices
    }


def first_list() -> dict[str, Pair]:
    """Return what the recurrent layer's rules lose beside the exact one on the first such list."""
    layer = {"ssd0.3": ("SSD 0.3", "tolerance-b0.3"), "pcg140": ("PCG 140", "group-m140")}
    return {
        f"registered_layer_{key}_exact": Pair(
            f"{label} by the layer, lookahead 6, minus exact",
            runs(f"{RETEST}/drafters", f"speculative-{name}-k6-recurrent", "s0", "s1", "s2"),
            EARLY_EXACT,
        )
        for key, (label, name) in layer.items()
    }


def second_list() -> dict[str, Pair]:
    """Return what rules lose on the second registered list."""
    tolerance = "speculative-tolerance-b{}-k{}".format
    systems = {
        f"ssd{beta}": (f"SSD {beta} by `draft=paper`", runs(RETEST, tolerance(beta, 3), *seeds))
        for beta, seeds in RETEST_SSD.items()
    }
    for key, label, name in (
        ("layer_ssd0.3", "SSD 0.3", tolerance(0.3, 6)),
        ("layer_pcg140", "PCG 140", "speculative-group-m140-k6"),
    ):
        of = runs(RETEST, f"{name}-recurrent", "s0", "s1", "s2")
        systems[key] = f"{label} by the layer, lookahead 6,", of
    pairs = {
        "retest_exact": Pair("exact by `draft=paper` minus target", RETEST_EXACT, RETEST_ALONE)
    }
    for key, (label, system) in systems.items():
        pairs |= beside_both(f"retest_{key}", label, system, RETEST_ALONE, RETEST_EXACT)
    return pairs


def margins() -> dict[str, Pair]:
    """Return what settings lose on the 225 sentences with margins named beforehand."""
    systems = {
        "exact": ("exact by the layer", "exact-k3-recurrent"),
        "ssd0.1": ("SSD 0.1 by the draft", "tolerance-b0.1-k3"),
        "ssd0.2": ("SSD 0.2 by the draft", "tolerance-b0.2-k3"),
        "pcg37.5": ("PCG 37.5 by the layer", "group-m37.5-k3-recurrent"),
    }
    return {
        f"margins_{key}_{'_'.join(map(str, seeds))}": Pair(
            f"{label} minus target, 225 other sentences, seeds {', '.join(map(str, seeds))}",
            *(
                runs("sentences/margins", one, *(f"s{seed}" for seed in seeds))
                for one in (f"speculative-{name}", "target")
            ),
        )
        for key, (label, name) in systems.items()
        for seeds in ((1, 2), (0, 1, 2))
    }


SEEDS = (0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)
BLOCKS = {
    "Any English sentence, by Whisper tiny.en": {
        "layer_ssd0.2": Pair(
            "SSD 0.2 by the layer (three seeds) minus target (one)", LAYER_SSD2, ALONE
        ),
        "layer_ssd0.4": Pair("SSD 0.4 by the layer minus target", LAYER_SSD4, ALONE),
        **beside_both("layer_pcg37.5", "PCG 37.5 by the layer", LAYER_PCG37, ALONE, EXACT),
        "layer_pcg230": Pair("PCG 230 by the layer minus target", LAYER_PCG230, ALONE),
        "draft_ssd0.2": Pair(
            "SSD 0.2 by the draft (three seeds) minus target (one)", DRAFT_SSD2, ALONE
        ),
        "draft_ssd0.4": Pair("SSD 0.4 by the draft minus target", DRAFT_SSD4, ALONE),
        "draft_pcg230": Pair("PCG 230 by the draft minus target", DRAFT_PCG230, ALONE),
        "exact": Pair("exact by the draft minus target", EXACT, ALONE),
        "ssd0.2_exact": Pair(
            "SSD 0.2 (three seeds) minus exact (one), both by the draft", DRAFT_SSD2, EXACT
        ),
        "ssd0.4_exact": Pair("SSD 0.4 minus exact, both by the draft", DRAFT_SSD4, EXACT),
        "pcg230_exact": Pair("PCG 230 minus exact, both by the draft", DRAFT_PCG230, EXACT),
        "drafters_0.2": Pair(
            "SSD 0.2, the layer minus the draft, three seeds", LAYER_SSD2, DRAFT_SSD2
        ),
        "drafters_0.4": Pair("SSD 0.4, the layer minus the draft", LAYER_SSD4, DRAFT_SSD4),
        "rules_0.2": rules("SSD 0.2 minus PCG 37.5, both by the layer", HINT_SSD2, LAYER_PCG37),
        "rules_0.4": rules("SSD 0.4 minus PCG 230, both by the layer", LAYER_SSD4, LAYER_PCG230),
        "draft_rules_0.1": rules(
            "PCG 16 minus SSD 0.1, both by the draft, three seeds", DRAFT_PCG16, DRAFT_SSD1
        ),
        "draft_rules_0.3": rules(
            "PCG 37.5 minus SSD 0.3, both by the draft", DRAFT_PCG37, DRAFT_SSD3
        ),
        "draft_rules_0.4": rules(
            "PCG 230 minus SSD 0.4, both by the draft", DRAFT_PCG230, DRAFT_SSD4
        ),
        "equal_0.2": rules("PCG 24 minus SSD 0.2, both by the layer, seeds 1 and 2", *EQUAL_PAIR),
        "trained_0.2": rules(
            "PCG 37.5 minus SSD 0.2, drafts of training seeds 1 and 2", TRAINED_PCG37, TRAINED_SSD2
        ),
        "trained_0.4": rules(
            "PCG 230 minus SSD 0.4, drafts of training seeds 1 and 2", TRAINED_PCG230, TRAINED_SSD4
        ),
    },
    "Any English sentence, by Whisper base": {
        **base_seeds("base_ssd0.4", "SSD 0.4 by the draft minus target", "ssd target", *SEEDS),
        **base_seeds("base_exact", "exact by the draft minus target", "exact target", *SEEDS),
        **base_seeds("base_ssd_exact", "SSD 0.4 minus exact by the draft", "ssd exact", *SEEDS),
        "base_codec": Pair(
            "target minus recordings through the codec, 120 sentences", BASE_ALONE, BASE_CODEC
        ),
        "base_spoken": Pair(
            "recordings through the codec minus recordings, 120 sentences", BASE_CODEC, BASE_SPOKEN
        ),
        **margins(),
    },
    "35 words, first registered list, three seeds": first_list(),
    "35 words, second registered list, three seeds": second_list(),
    "35 words, test list: SSD 0.3 by drafts that err alone on so many words": {
        f"drafts_{key}": Pair(f"SSD 0.3 by {label} minus exact (three)", system, EXACT35)
        for key, (label, system) in DRAFTS.items()
    },
    "35 words: heads on the finished small target": {
        "frozen_path": Pair(
            "8 heads, best path minus each by itself, three seeds", FROZEN_PATH, FROZEN_HEADS
        ),
    },
    "35 words: SSD's own draft": {
        "hours": Pair(f"{LONG} minus {SHORT}, alone", OWN, FEW),
        "hours_exact": Pair(
            "exact by `ssd-seed0` minus exact by `ssd-long`", OWN_EXACT, FEW_EXACT, (TOKENS,)
        ),
        "hours_ssd0.4": Pair(
            "SSD 0.4 by `ssd-seed0` minus SSD 0.4 by `ssd-long`", OWN_SSD4, FEW_SSD4
        ),
        "layers": Pair(f"{SHORT} minus `draft=paper`, alone", FEW, PAPER),
    },
}
CAPTION = (
    "One system minus another, paired by utterance, with 95 % intervals of the bootstrap over "
    "utterances; p is not corrected for their number. Rules whose tokens per target pass "
    "differ by more than 3 % (about 0.08) are not at equal length. Layer and draft are the "
    "recurrent layer and the 7-layer draft that ship. Systems are of one decoding seed where "
    "nothing else is said; exact is by the draft, of 35 words by `draft=paper`."
)
DIFFERENCE = tables.Heading("difference", "", "system")
COLUMNS = {
    WER: tables.Heading("WER", "points", "wer_difference"),
    TOKENS: tables.Heading("tokens per target pass", "", "acceptance_length_difference"),
}
SCALES = {WER: 100.0, TOKENS: 1.0}


def scores(results: Path, system: System) -> list[ScoreRow]:
    """Return the scores of a system, all runs that it names."""
    folder, *names = system
    archives = sorted(results.glob(str(archive(Path(folder), "scores"))))
    found = []
    for name in names:
        of_it = [(path, run) for path in archives for run in unpacked(path) if run.startswith(name)]
        if not of_it:
            raise ValueError(f"{results / folder} has no scores of {name}; keep them first")
        found += of_it
    return [row for path, run in found for row in read_scores(path.parent, [run])]


def line(results: Path, pair: Pair) -> tables.Line:
    """Return a pair's differences, each in the column of its metric."""
    made = {DIFFERENCE: tables.Cell(pair.label)} | {
        one: tables.Cell("") for one in COLUMNS.values()
    }
    other, first = (scores(results, system) for system in (pair.other, pair.first))
    for metric in pair.metrics:
        found = compare_rows(other, first, metric, Bootstrap()).scaled(SCALES[metric])
        made[COLUMNS[metric]] = tables.Cell.of(found, signed=True)
    return made


def table(results: Path) -> tables.Table:
    """Return a line for each pair."""
    blocks = {
        title: {key: line(results, pair) for key, pair in of.items()}
        for title, of in BLOCKS.items()
    }
    return tables.Table(
        name=NAME,
        title="Differences that no other table has",
        caption=(CAPTION,),
        origin=("`python scripts/differences.py results`, of the scores that ship",),
        speech="Recordings and speakers are synthetic: Flite voices.",
        blocks=blocks,
    )


def write(results: Path, made: tables.Table) -> None:
    """Write a table for people and for programs."""
    write_atomic(results / f"{made.name}.md", tables.markdown(made))
    write_atomic(results / f"{made.name}.csv", tables.comma_separated(made))


if __name__ == "__main__":
    write(Path(sys.argv[1]), table(Path(sys.argv[1])))
