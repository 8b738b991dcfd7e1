"""What several tests of models ask for."""

from collections.abc import Iterator

import pytest

from speculative_tts.native import library


@pytest.fixture
def instructions(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Lets a test choose the instruction set."""
    library.loaded.cache_clear()
    yield monkeypatch
    library.loaded.cache_clear()
