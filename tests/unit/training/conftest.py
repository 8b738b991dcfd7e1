from pathlib import Path

import pytest
from small_target import save_codes, save_target


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A saved untied Qwen2 target with its speech.json."""
    save_target(tmp_path / "target")
    return tmp_path / "target"


@pytest.fixture
def codes(tmp_path: Path) -> Path:
    """A codes store with train and dev utterances."""
    save_codes(tmp_path / "codes")
    return tmp_path / "codes"
