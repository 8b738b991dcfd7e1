"""Run folders made up once for all tests here."""

from pathlib import Path

import pytest
from synthetic_runs import make_ssd_runs, undrawn

from speculative_tts.commands.report import main


@pytest.fixture(scope="session")
def ssd_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every run of the SSD report, 24 utterances each. Do not write into it."""
    runs = tmp_path_factory.mktemp("reporting") / "runs"
    make_ssd_runs(runs, n=24)
    return runs


@pytest.fixture(scope="session")
def ssd_report(ssd_runs: Path) -> Path:
    """The report of `ssd_runs`: a folder with its page and `ssd/`. Do not write into it."""
    out = ssd_runs.parent / "results"
    with undrawn():
        assert main([f"runs={ssd_runs}", f"out={out}", "strict=true"]) == 0
    return out


@pytest.fixture(autouse=True, scope="module")
def _blank(blank_figures: None) -> None:
    """Figures are drawn in test_figures, and where a test asks for `drawn_figures`."""
