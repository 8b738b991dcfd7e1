"""Figures as the papers print them, with their source: text, so that no digit is gained or lost."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DraftPolicy:
    """How a paper makes its draft: in words, how many layers it trains, and for which losses."""

    text: str
    train_layers: int
    losses: tuple[str, ...]


@dataclass(frozen=True)
class HeadsPolicy:
    """How a paper makes its multi-token heads, and how many layers of codes its targets have."""

    text: str
    layers: int


@dataclass(frozen=True)
class PaperTable:
    """One published table: rows by key, each a mapping from column to the printed text.

    `measured` says how: the paper's name of a column, its judge. `derived` has the columns that are
    not printed but follow from printed ones, with the formula. `called` heads its columns.
    """

    source: str
    measured: Mapping[str, str]
    rows: Mapping[str, Mapping[str, str]]
    settings: str = ""
    derived: Mapping[str, str] = field(default_factory=dict)
    called: str = "paper"
    system: str = ""  # whose figures they are, where a paper has several
    draft: DraftPolicy | None = None  # set beside how ours was made
    heads: HeadsPolicy | None = None  # likewise

    def text(self, row: str, column: str) -> str | None:
        """What the paper prints; None where it has no such row or figure."""
        return self.rows.get(row, {}).get(column)

    def value(self, row: str, column: str) -> float:
        """A printed figure as a number, without its spread; KeyError when there is none."""
        return number(self.rows[row][column])


def number(text: str) -> float:
    """The figure in a printed cell: 13.8 of `13.8 ± 0.4`, 1.4 of `1.4x`."""
    return float(text.partition("±")[0].strip().rstrip("x"))


def _rows(columns: str, text: str) -> dict[str, dict[str, str]]:
    """Rows of `key | cell | cell ...` lines."""
    names = columns.split()
    rows = {}
    for line in text.strip().splitlines():
        key, *cells = (cell.strip() for cell in line.split("|"))
        rows[key] = dict(zip(names, cells, strict=True))
    return rows


def _with_speedup(
    rows: Mapping[str, Mapping[str, str]], baseline: float
) -> dict[str, dict[str, str]]:
    """Rows with the speedup that their LM-RTF means against the baseline's."""
    return {
        key: {**row, "speedup": f"{baseline / float(row['lm_rtf']):.2f}"}
        for key, row in rows.items()
    }


SSD = "Lin et al., Speech Speculative Decoding, Interspeech 2025, arXiv 2505.15380"
SSD_SETTINGS = (
    "CosyVoice 2, LibriTTS test-clean (UniCATS subset, 500 utterances, 37 speakers), "
    "one A100-SXM4-40GB, single run"
)
SSD_MEASURED = {
    "wer": "Whisper large-v3",
    "nmos": "NMOS",
    "ss": "SS, ERes2Net",
    "speedup": "derived",
}
SSD_DRAFT = DraftPolicy(
    "the lower 2 and upper 6 of 24 layers, the lower 2 and the head trained for cross entropy",
    train_layers=2,
    losses=("ce",),
)
SSD_BASELINE = 0.504  # LM-RTF of CosyVoice 2 alone, Table 1
SSD_DERIVED = {"speedup": f"LM-RTF of CosyVoice 2 alone ({SSD_BASELINE}) over the row's LM-RTF"}
_TARGET = "target | 3.67 | 3.96 | 0.62 | 0.504"

SSD_TABLE_1 = PaperTable(
    source=f"{SSD}, Table 1",
    settings=SSD_SETTINGS,
    measured=SSD_MEASURED,
    rows=_with_speedup(
        _rows(
            "wer nmos ss lm_rtf",
            f"""
            draft  | 16.13 | 3.95 | 0.61 | 0.222
            {_TARGET}
            ssd    |  5.70 | 3.94 | 0.63 | 0.360
            """,
        ),
        SSD_BASELINE,
    ),
    derived=SSD_DERIVED,
    draft=SSD_DRAFT,
)

SSD_TABLE_2 = PaperTable(
    source=f"{SSD}, Table 2",
    settings=f"{SSD_SETTINGS}; 30 raters, 10 samples each, 95 % intervals",
    measured={"smos": "SIM-MOS", "mos": "NAT-MOS"},
    rows=_rows(
        "smos mos",
        """
        draft  | 3.737 ± 0.141 | 3.820 ± 0.143
        target | 3.789 ± 0.148 | 3.930 ± 0.147
        ssd    | 3.784 ± 0.152 | 3.925 ± 0.139
        """,
    ),
)

SSD_TABLE_3 = PaperTable(
    source=f"{SSD}, Table 3 (the row without speculation: Table 1)",
    settings=SSD_SETTINGS,
    measured=SSD_MEASURED,
    rows=_with_speedup(
        _rows(
            "wer nmos ss lm_rtf",
            f"""
            {_TARGET}
            0.0 | 6.34 | 3.86 | 0.62 | 0.509
            0.1 | 5.71 | 3.90 | 0.50 | 0.444
            0.2 | 6.08 | 3.92 | 0.62 | 0.408
            0.3 | 6.29 | 3.93 | 0.62 | 0.386
            0.4 | 5.70 | 3.94 | 0.63 | 0.360
            """,
        ),
        SSD_BASELINE,
    ),
    derived=SSD_DERIVED,
    draft=SSD_DRAFT,
)


PCG = "Yanuka et al., Principled Coarse-Grained acceptance, arXiv 2511.13732"
PCG_SETTINGS = (
    "LLaSA-8B, 500 utterances of LibriTTS test-clean, 3 seeds (mean ± standard deviation), "
    "one H100-80GB"
)
PCG_MEASURED = {
    "wer": "HuBERT-large",
    "cer": "HuBERT-large",
    "sim": "Sim-O %, WavLM",
    "nmos": "NMOS, 4 raters",
    "delta_wer": "fraction",
    "delta_sim": "Sim-O",
    "speedup": "SD at that θ",
}

PCG_DRAFT = DraftPolicy(
    "3 of 32 layers, trained on the recorded tokens without distillation",
    train_layers=3,
    losses=("ce",),
)

PCG_TABLE_1 = PaperTable(
    source=f"{PCG}, Table 1",
    settings=PCG_SETTINGS,
    draft=PCG_DRAFT,
    measured={key: PCG_MEASURED[key] for key in ("wer", "cer", "sim", "nmos")},
    rows=_rows(
        "speedup wer cer sim nmos",
        """
        draft | 5.2x  | 52.8 ± 1.6 | 41.4 ± 1.8 | 36.3 ± 1.1 | -
        exact | 0.98x | 11.1 ± 0.6 |  5.5 ± 0.5 | 43.7 ± 0.3 | 4.38 ± 0.88
        ssd   | 1.4x  | 18.5 ± 1.9 | 11.6 ± 1.7 | 42.5 ± 0.4 | 3.78 ± 1.21
        pcg   | 1.4x  | 13.8 ± 0.4 |  7.8 ± 0.3 | 43.7 ± 0.1 | 4.09 ± 1.13
        """,
    ),
)

PCG_TABLE_2 = PaperTable(
    source=f"{PCG}, Table 2",
    settings=PCG_SETTINGS,
    measured={key: PCG_MEASURED[key] for key in ("delta_wer", "delta_sim", "speedup")},
    rows=_rows(
        "swapped delta_wer delta_sim speedup",
        """
        1    |  0.0 | +0.000 |  0.000 | 1.0x
        4.5  | 75.0 | +0.004 | -0.014 | 1.18x
        10.3 | 91.4 | +0.007 | -0.027 | 1.23x
        """,
    ),
)

PCG_TABLE_3 = PaperTable(
    source=f"{PCG}, Table 3 (same speedup)",
    settings=PCG_SETTINGS,
    measured={key: PCG_MEASURED[key] for key in ("wer", "cer", "sim")},
    rows=_rows(
        "wer cer sim",
        """
        mel       | 13.9 | 7.9 | 43.7
        embedding | 12.6 | 6.6 | 43.7
        """,
    ),
)


MTP = (
    "Nguyen et al., Multi-Token Prediction and Speculative Decoding, ICASSP 2025, arXiv 2410.13839"
)
MTP_SETTINGS = "LibriTTS test-clean, one A6000, 8 heads and k = 3 unless stated; baseline uncached"
MTP_MEASURED = {
    "tpt": "uncached engine",
    "wer": "Conformer-Transducer",
    "cer": "Conformer-Transducer",
    "mos": "95 % interval",
    "smos": "95 % interval",
    "utmos": "UTMOS",
    "sim": "x-vector, %",
    "speedup": "over uncached",
}
MTP_HEADS = HeadsPolicy(
    "with the target from scratch, for the sum of all heads' cross entropies", layers=8
)

MTP_TABLE_1_VALLE = PaperTable(
    source=f"{MTP}, Table I, VALL-E",
    system="VALL-E",
    settings=MTP_SETTINGS,
    measured=MTP_MEASURED,
    heads=MTP_HEADS,
    rows=_rows(
        "tpt speedup mos smos utmos sim wer cer",
        """
        truth    | -    | -    | 4.77 ± 0.09 | 3.53 ± 0.29 | 4.14 | -    |  2.9 | 0.8
        baseline | 20.5 | 1    | 2.89 ± 0.17 | 3.20 ± 0.20 | 3.56 | 79.6 | 12.8 | 8.1
        ours     |  4.5 | 4.56 | 2.79 ± 0.18 | 2.79 ± 0.20 | 3.53 | 79.2 | 12.0 | 8.3
        """,
    ),
)

MTP_TABLE_1_USLM = PaperTable(
    source=f"{MTP}, Table I, USLM",
    system="USLM",
    settings=MTP_SETTINGS,
    measured=MTP_MEASURED,
    heads=MTP_HEADS,
    rows=_rows(
        "tpt speedup mos smos utmos sim wer cer",
        """
        truth    | -    | -    | 4.77 ± 0.09 | 3.53 ± 0.29 | 4.14 | -    |  2.9 | 0.8
        baseline | 23.5 | 1    | 3.72 ± 0.15 | 3.00 ± 0.20 | 3.82 | 79.3 | 11.5 | 7.7
        ours     |  4.4 | 5.34 | 4.02 ± 0.12 | 3.25 ± 0.19 | 3.82 | 78.8 |  8.7 | 5.2
        """,
    ),
)

MTP_TABLE_2 = PaperTable(
    source=f"{MTP}, Table II",
    settings=MTP_SETTINGS,
    measured=MTP_MEASURED,
    heads=MTP_HEADS,
    rows=_rows(
        "tpt utmos wer",
        """
        n8k3  | 4.4 | 3.82 |  8.6
        n8k5  | 4.4 | 3.79 |  9.3
        n8k7  | 4.4 | 3.76 |  9.7
        n8k9  | 4.4 | 3.74 | 10.2
        n8k15 | 4.5 | 3.67 | 11.1
        n8k25 | 4.5 | 3.58 | 12.2
        n4k3  | 8.0 | 3.82 |  8.1
        n4k5  | 8.0 | 3.78 |  8.7
        n4k7  | 8.0 | 3.72 |  9.9
        n4k9  | 8.0 | 3.65 | 10.9
        n4k15 | 8.0 | 3.49 | 12.2
        n4k25 | 8.1 | 3.31 | 13.9
        """,
    ),
)
