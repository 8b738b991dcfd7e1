"""scripts/core_seconds.py: what cores worked, and the row of a whole quality run."""

import subprocess
import sys
from pathlib import Path

import pytest
from core_seconds import cores
from markdown_tables import blocks

pytestmark = pytest.mark.whole

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "core_seconds.py"


def test_work_counts_and_waiting_does_not() -> None:
    busy = "import time\nwhile time.process_time() < float(__import__('sys').argv[1]): pass"
    assert cores(ROOT, busy, ["1.0"]) >= 1.0
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    assert cores(ROOT, child, [busy, "1.0"]) >= 1.0  # of processes that it starts too
    assert cores(ROOT, "import time, sys; time.sleep(float(sys.argv[1]))", ["1.0"]) < 0.8
    with pytest.raises(subprocess.CalledProcessError):
        cores(ROOT, "raise SystemExit(2)", [])


def test_another_checkout_runs_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started in a checkout, the script ran that one's code as the older's."""
    package = tmp_path / "speculative_tts"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.chdir(ROOT)
    code = "import speculative_tts as it, sys; assert it.__file__ == sys.argv[1], it.__file__"
    cores(tmp_path, code, [str(package / "__init__.py")])


@pytest.mark.slow
def test_a_row_has_all_parts(tmp_path: Path) -> None:
    settings = ["method=target", "limit=1", "timing=0", "batch_size=16"]
    command = [sys.executable, str(SCRIPT), str(tmp_path / "runs"), *settings]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (row,) = blocks(said)[-1:]
    assert row["utterances"] == ["1"]
    decode, codec, judges, whole = (
        float(row[name][0]) for name in ("decode", "codec", "judges", "core seconds in all")
    )
    assert min(decode, codec, judges) > 0
    assert whole == pytest.approx(decode + codec + judges, abs=0.2)
