"""The claims of the three papers, each with where our interval must lie to show it.

Keys of systems are those of `claims`. Bounds of effects were set before the test list; those of
headlines are half of what the paper prints (a speedup's gain, or its difference in word errors).
"""

from speculative_tts.reporting import paper
from speculative_tts.reporting.definitions import Claim, ClaimKind
from speculative_tts.reporting.matched import LENGTH
from speculative_tts.reporting.paper import PaperTable

SAME = 2.0  # points of word errors that count as none: the swaps' goal
VOICE = -0.02  # of similarity
LOSS = 1.0  # points below which a faster setting counts as no worse (a non-inferiority test)
HALF = 0.5  # of a printed effect: what a headline must reach
SSD_HEADLINE = "SSD: 1.4 times as fast at little loss"
PCG_HEADLINE = "PCG: 1.4 times as fast with fewer errors than SSD"
HEADS_HEADLINE = "Heads: 4 to 5 times as fast, words kept"
VITERBI_HEADLINE = "Viterbi: a path search mends what heads lose"
USLM_ALONE = paper.MTP_TABLE_1_USLM.text("baseline", "wer")


def _gap(table: PaperTable, of: str, minus: str, column: str, digits: int = 1) -> str:
    """A printed difference, and what it is of: `-4.7 (13.8, 18.5; Table 1)`."""
    gap = table.value(of, column) - table.value(minus, column)
    place = table.source.rpartition(", Table ")[2].partition(" (")[0]
    number = f"{gap:+.{digits}f}" if float(f"{gap:.{digits}f}") else f"{0:.{digits}f}"
    return f"{number} ({table.text(of, column)}, {table.text(minus, column)}; Table {place})"


def _gained(speedup: float) -> float:
    """Return a speedup with half of a printed one's gain."""
    return 1 + HALF * (speedup - 1)


OF_SSD = (
    Claim(
        "A draft alone errs far more than its target",
        _gap(paper.SSD_TABLE_1, "draft", "target", "wer"),
        "wer",
        "draft",
        "target",
        above=5.0,
        kind=ClaimKind.control,
    ),
    Claim(
        "The exact rule has the target's words (the law says so; the paper prints more errors)",
        _gap(paper.SSD_TABLE_3, "0.0", "target", "wer"),
        "wer",
        "exact",
        "target",
        above=-SAME,
        below=SAME,
        kind=ClaimKind.control,
    ),
    Claim(
        "The exact rule does not pay",
        f"{paper.SSD_TABLE_3.value('0.0', 'speedup'):.2f} (Table 3)",
        "speedup",
        "exact",
        below=1.1,
        why="The draft is far cheaper beside its target than the paper's (draft alone, Table 1).",
    ),
    Claim(
        "A tolerance makes rounds longer",
        "1.41 times as fast as the exact rule (Table 3)",
        LENGTH,
        "ssd0.4",
        "exact",
        above=0.0,
        kind=ClaimKind.control,
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
        kind=ClaimKind.control,
    ),
    Claim(
        "Drafting further than 3 does not pay",
        "LM-RTF rises again (Figure 3)",
        "speedup",
        "far",
        "ssd0.4",
        below=0.0,
        why="The draft is far cheaper beside its target than the paper's: further tokens cost "
        "little. A few percent want more than 20 timed utterances.",
    ),
    Claim(
        "SSD is 1.4 times as fast as the target alone",
        f"{paper.SSD_TABLE_1.value('ssd', 'speedup'):.2f} (Table 1)",
        "speedup",
        "ssd0.4",
        above=_gained(1.4),
        kind=ClaimKind.headline,
        headline=SSD_HEADLINE,
    ),
    Claim(
        "SSD loses few words beside the target alone",
        _gap(paper.SSD_TABLE_1, "ssd", "target", "wer"),
        "wer",
        "ssd0.4",
        "target",
        below=SAME,
        why="A weak draft's tokens pass: it errs on 45 % of the words alone, the paper's on 16 %.",
        kind=ClaimKind.headline,
        headline=SSD_HEADLINE,
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
        "The same at equal speed by the clock",
        _gap(paper.PCG_TABLE_1, "pcg", "ssd", "wer"),
        "wer",
        "pcg@clock0.3",
        "ssd0.3",
        below=0.0,
        why="The group rule takes longer than a tolerance here, and no size makes up for it; "
        "PCG's matched_clock has the tolerances that some size is as fast as.",
    ),
    Claim(
        "PCG makes rounds longer",
        "1.43 times as fast as the exact rule (Table 1)",
        LENGTH,
        "pcg@length0.3",
        "exact",
        above=0.0,
        kind=ClaimKind.control,
    ),
    Claim(
        "PCG costs fewer than 5 points of words",
        _gap(paper.PCG_TABLE_1, "pcg", "exact", "wer"),
        "wer",
        "pcg@length0.3",
        "exact",
        below=5.0,
        kind=ClaimKind.control,
    ),
    Claim(
        "PCG keeps the voice",
        _gap(paper.PCG_TABLE_1, "pcg", "exact", "sim"),
        "similarity",
        "pcg@length0.3",
        "exact",
        above=VOICE,
        kind=ClaimKind.control,
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
        "Swaps within groups of 10.3 tokens are benign",
        "+0.7 (Table 2)",
        "wer",
        "swap10.3",
        "target",
        below=SAME,
        why="8,192 codes have fewer near neighbours than the paper's 65,536.",
    ),
    Claim(
        "Larger groups make rounds longer",
        "1.18 to 1.23 times (Table 2)",
        LENGTH,
        "pcg10.3",
        "pcg4.5",
        above=0.0,
        kind=ClaimKind.control,
    ),
    Claim(
        "Groups by mel frames cost words beside groups by embeddings",
        _gap(paper.PCG_TABLE_3, "mel", "embedding", "wer"),
        "wer",
        "mel",
        "pcg10.3",
        above=0.0,
        why="The paper does not say how it makes mel groups, nor whether its difference is chance.",
    ),
    Claim(
        "PCG is 1.4 times as fast as the target alone",
        f"{paper.PCG_TABLE_1.value('pcg', 'speedup')} (Table 1)",
        "speedup",
        "pcg@length0.3",
        above=_gained(1.4),
        why="On this CPU the group rule's work is not hidden behind the models' passes.",
        kind=ClaimKind.headline,
        headline=PCG_HEADLINE,
    ),
    Claim(
        "PCG has fewer word errors than SSD at equal acceptance length",
        _gap(paper.PCG_TABLE_1, "pcg", "ssd", "wer"),
        "wer",
        "pcg@length0.3",
        "ssd0.3",
        below=0.0,
        why="A tolerance costs a fifth of the paper's price here; groups so large lose words too.",
        kind=ClaimKind.headline,
        headline=PCG_HEADLINE,
    ),
)

OURS = (
    Claim(
        "SSD by the recurrent layer loses no more words than 1 point",
        "- (no paper's)",
        "wer",
        "ssd",
        "target",
        below=LOSS,
    ),
    Claim(
        "PCG by the recurrent layer loses no more words than 1 point",
        "- (no paper's)",
        "wer",
        "pcg",
        "target",
        below=LOSS,
    ),
)

OF_MTP = (
    Claim(
        "8 heads are several times as fast as a target with a cache (no paper's claim)",
        "- (the paper's target has none)",
        "speedup",
        "best8",
        above=2.0,
        why="A cache alone, as exact, gives more than that here (Table I).",
    ),
    Claim(
        "4 heads by the best path keep the words",
        f"{paper.MTP_TABLE_2.text('n4k3', 'wer')} (Table II; {USLM_ALONE} alone, Table I)",
        "wer",
        "best4",
        "cached",
        below=SAME,
        why="Codes of 25 Hz: 4 tokens are 0.16 s here, 0.08 s in the paper.",
    ),
    Claim(
        "More candidates cost words",
        _gap(paper.MTP_TABLE_2, "n8k25", "n8k3", "wer"),
        "wer",
        "wide",
        "best8",
        above=0.0,
        why="The best path seldom leaves the 3 likeliest candidates here: more change few codes.",
    ),
    Claim(
        "8 uncached heads are 4 to 5 times as fast as an uncached target",
        f"{paper.MTP_TABLE_1_VALLE.text('ours', 'speedup')} (Table I)",
        "speedup",
        "bare8",
        over="uncached",
        above=_gained(paper.MTP_TABLE_1_VALLE.value("ours", "speedup")),
        kind=ClaimKind.headline,
        headline=HEADS_HEADLINE,
    ),
    Claim(
        "8 heads by the best path keep the words",
        _gap(paper.MTP_TABLE_1_VALLE, "ours", "baseline", "wer"),
        "wer",
        "best8",
        "cached",
        below=SAME,
        why="Codes of 25 Hz: 8 tokens are 0.32 s here, 0.16 s in the paper.",
        kind=ClaimKind.headline,
        headline=HEADS_HEADLINE,
    ),
    Claim(
        "The path search saves words that 8 heads by themselves lose",
        "nearly flat beside a quick fall (Figure 4)",
        "wer",
        "best8",
        "none8",
        below=0.0,
        why="Heads trained with their target leave a path little to mend; of heads on a frozen one "
        "it saves many (the other target's Table I).",
        kind=ClaimKind.headline,
        headline=VITERBI_HEADLINE,
    ),
)
