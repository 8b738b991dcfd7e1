"""Debian's Chromium, driven by Playwright; without either these tests are skipped and say why."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from browser_sizes import DESKTOP, PHONE

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium; `make browser` installs Debian's")
    api = pytest.importorskip("playwright.sync_api", reason="no Playwright; run `make browser`")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--autoplay-policy=user-gesture-required"]
        )
        yield browser
        browser.close()


@pytest.fixture(params=["desktop", "phone"])
def size(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What a browser's context is made with."""
    return PHONE if request.param == "phone" else DESKTOP
