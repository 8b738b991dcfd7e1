from pathlib import Path

import pytest
from own_store import save_store
from small_target import save_codes, save_target

from tests.fake_models import FakeModels, write_fake_models


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


@pytest.fixture
def models(tmp_path: Path) -> FakeModels:
    """A random target and codec, and beside them a codes store of texts for it to say."""
    save_store(tmp_path / "codes")
    return write_fake_models(tmp_path / "models")
