"""plan=true of sst-decode: what a sweep would take, and nothing is made."""

import re
from pathlib import Path

import pytest

from speculative_tts.commands import decode
from tests.fake_models import write_fake_models


def test_a_sweep_is_counted_and_nothing_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = write_fake_models(tmp_path / "models", utterances=9)
    common = [*models.overrides, f"out={tmp_path / 'runs'}", "timing=2", "limit=7"]
    assert decode.main([*common, "method=target,codec", "plan=true"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert "7 utterances (2 timed)" in lines[0]
    assert "7 utterances (0 timed), 0 tokens" in lines[1]
    assert last.startswith("2 runs so far: 14 utterances (2 timed)")
    assert re.search(r"on several devices 2: [\d.]+ min, 4: .* GiB of memory", last)
    assert not list(tmp_path.glob("runs/[a-z]*/"))


def test_what_is_done_is_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the tokens that are foreseen are those that are made."""
    models = write_fake_models(tmp_path / "models")
    common = [*models.overrides, f"out={tmp_path / 'runs'}", "timing=null", "baseline=false"]
    assert decode.main([*common, "plan=true"]) == 0
    foreseen = capsys.readouterr().out
    assert "6 utterances (6 timed)" in foreseen
    assert decode.main(common) == 0
    (path,) = tmp_path.glob("runs/*/records.jsonl")
    tokens = sum(int(found) for found in re.findall(r'"tokens": (\d+)', path.read_text()))
    assert f"{tokens:,} tokens" in foreseen  # the probe took all six
    capsys.readouterr()
    assert decode.main([*common, "plan=true"]) == 0
    assert "0 utterances (0 timed), 0 tokens" in capsys.readouterr().out


def test_a_point_that_cannot_be_planned_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one's mistake was a traceback of the second."""
    models = write_fake_models(tmp_path / "models", utterances=3)
    common = [*models.overrides, f"out={tmp_path / 'runs'}", "plan=true", "method=target"]
    paths = f"codec.path='{tmp_path}','{models.root / 'codec'}'"
    assert decode.main([*common, paths]) == 2
    out, err = capsys.readouterr()
    assert f"{tmp_path}" in err
    assert "Traceback" not in err
    assert "3 utterances" in out
