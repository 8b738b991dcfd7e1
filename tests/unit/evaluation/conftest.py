"""Folders that several files here read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import loud_judge
import pytest
from loud_judge import LoudJudge
from scored_runs import SPEECH, record, write_run

from speculative_tts.evaluation import scoring
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


@pytest.fixture
def loud(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`loud` and `deaf` among the judges; what was heard is forgotten."""
    judges = {"loud": lambda *_: LoudJudge(), "deaf": lambda *_: LoudJudge(absent=True)}
    monkeypatch.setattr(scoring, "JUDGES", scoring.JUDGES | judges)
    yield
    loud_judge.HEARD.clear()
    loud_judge.STOP_AFTER.clear()
