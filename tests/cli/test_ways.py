"""CONTRIBUTING's ways: a rule, a drafter, a target family and a metric from outside the package.

None may need more than a file, a line of a registry and a YAML.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_models import write_fake_models
from run_records import records
from toys import write_configs

from speculative_tts.records import read_jsonl
from speculative_tts.schema.common import CheckpointConfig

ROOT = Path(__file__).parents[2]


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    models = write_fake_models(tmp_path)
    folder = tmp_path / "bigrams"
    folder.mkdir()
    shutil.copy(tmp_path / "target" / "speech.json", folder)
    (folder / "bigrams.json").write_text('{"seed": 7}')
    write_configs(tmp_path / "configs", CheckpointConfig("bigrams", str(folder)))
    return [f"--config-dir={tmp_path / 'configs'}", f"codec.path={models.root / 'codec'}"]


def run(tmp_path: Path, command: str, *settings: str) -> str:
    code = "import sys, toys; sys.exit(toys.main())"
    done = subprocess.run(
        [sys.executable, "-c", code, command, *settings],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.whole
def test_toys_of_every_kind_decode_and_are_scored(tmp_path: Path, settings: list[str]) -> None:
    rule = ["rule=timid", "rule.trust=0.4"]  # a key of a new kind does not choose it
    given = ["target=bigrams", *rule, "drafter=again", "data.path=list.jsonl"]
    said = run(tmp_path, "decode", *settings, *given, "limit=3", "baseline=false")
    assert "tokens a round" in said
    (folder,) = (tmp_path / "runs").glob("speculative-timid-t0.4-k3-s0-*")
    rows = records(tmp_path / "runs", folder.name)
    drafted, accepted = (sum(row[name] for row in rows) for name in ("drafted", "accepted"))
    assert len(rows) == 3
    assert 0 <= accepted < drafted
    score = [setting for setting in settings if not setting.startswith("codec")]
    said = run(tmp_path, "eval", *score, "judges=loudest", "runs=runs", "workers=1", "draws=0")
    assert "Loudest" in said or "loudest" in said
    assert all(0 < row["loudest"] <= 1 for row in read_jsonl(folder / "scores.jsonl"))
