"""What several tests of commands ask for."""

from pathlib import Path

import pytest
import stub_decode as stub


@pytest.fixture
def stub_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`stub_decode` in an empty folder, as if nothing had been asked of it."""
    stub.seen.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SST_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "100")  # a terminal's width would wrap help elsewhere
