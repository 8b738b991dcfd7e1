"""The golden check of CSM passes on its files, and fails on damaged ones."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speculative_tts.checks import csm

pytestmark = pytest.mark.usefixtures("kernels")

GOLDEN = Path(__file__).parents[2] / "golden" / "csm"


def test_every_case_is_within_its_tolerance() -> None:
    rows = list(csm.check(GOLDEN))
    assert len(rows) == 14
    assert [row for row in rows if not row.passed] == []


def _nudge(arrays: dict[str, Any], name: str, amount: float) -> None:
    arrays[name] = arrays[name].copy()
    arrays[name].flat[-1] += amount


DAMAGES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "prompt alone, ids": lambda about, _: about["prompts"][0]["ids"].pop(),
    "sampler: temperature": lambda about, _: about["sampler"].update(temperature=0.8),
    "alone: logits, depth decoder": lambda _, arrays: _nudge(arrays, "alone/logits", 1e-3),
    "codec: codes of a wave": lambda _, arrays: _nudge(arrays, "codes", 1),
    "codec: wave of the codes": lambda _, arrays: _nudge(arrays, "heard", 1e-3),
    "voice: greedy": lambda _, arrays: _nudge(arrays, "voice/frames", -1),
    "voice: greedy, speculative": lambda _, arrays: _nudge(arrays, "voice/frames", -1),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_fault_is_found(case: str, tmp_path: Path) -> None:
    folder = tmp_path / "golden"
    shutil.copytree(GOLDEN, folder)
    about = json.loads((folder / "golden.json").read_text())
    arrays = dict(np.load(folder / "golden.npz"))
    DAMAGES[case](about, arrays)
    (folder / "golden.json").write_text(json.dumps(about))
    np.savez(folder / "golden.npz", **arrays)
    assert case in {row.case for row in csm.check(folder) if not row.passed}


def test_frames_of_another_model_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "golden"
    shutil.copytree(GOLDEN, folder)
    arrays = dict(np.load(folder / "golden.npz"))
    arrays["alone/frames"] = arrays["alone/frames"][:, :5]
    np.savez(folder / "golden.npz", **arrays)
    with pytest.raises(ValueError, match="frames of other codes than the model's 6 x 19; copy"):
        list(csm.check(folder))
