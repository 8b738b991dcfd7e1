"""Folders that several files here read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scored_runs import SPEECH, record, write_run

from speculative_tts.records import DecodeRecord


@pytest.fixture
def speech() -> Path:
    """Folder of real speech."""
    return SPEECH


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A finished run of four utterances."""
    return write_run(tmp_path / "runs" / "ssd-0123abcd", [record(f"u{i}") for i in range(4)])


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Makes finished runs under one folder."""

    def make(name: str, records: list[DecodeRecord], **config: Any) -> Path:
        return write_run(tmp_path / "runs" / name, records, config)

    return make
