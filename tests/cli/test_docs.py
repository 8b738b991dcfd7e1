"""The documentation as pages: nothing is fetched, nothing leads nowhere; the tutorial runs."""

import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run_notebook
import soundfile

from speculative_tts.api import Speech
from speculative_tts.decoding.outcome import Outcome

pytest.importorskip("mkdocs", reason="mkdocs is not here: pip install -e .[docs]")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not here: pip install -e .[docs]")

pytestmark = pytest.mark.whole
ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"


class Page(HTMLParser):
    """What a page loads, where its links lead, and what can be led to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attributes}
        self.ids |= {known.get("id", ""), known.get("name", "")}
        if tag == "a" and "href" in known:
            self.links.append(known["href"])
        elif tag != "link" or known.get("rel") not in {"canonical", "next", "prev"}:
            self.loads += [known[name] for name in ("src", "href") if name in known]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    return folder


def test_every_page_is_there_and_fetches_nothing(site: Path) -> None:
    names = "index install tutorial commands api reference listening paper-scale contributing"
    for name in names.split():
        assert (site / f"{name}.html").stat().st_size > 5_000, name
    for path in site.rglob("*.html"):
        for load in Page(path).loads:
            assert re.match(r"data:|[^:]*$", load), (path.name, load)
            assert not load.startswith("//"), (path.name, load)
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", styles)


def test_links_between_pages_lead_somewhere(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = link.partition("#")
            if re.match(r"https?:|mailto:", target):
                continue
            there = (path.parent / target).resolve() if target else path
            assert there.is_file(), (path.name, link)
            if anchor and there in pages:
                assert anchor in pages[there].ids, (path.name, link)


def test_promised_names_are_described(site: Path) -> None:
    described = Page(site / "reference.html").ids
    table = (
        (ROOT / "docs" / "api.md").read_text().partition("| name | is |")[2].partition("\n\n")[0]
    )
    found = re.findall(r"^\| `([\w.]+)`", table, re.MULTILINE)
    missing = {name for name in found if f"speculative_tts.{name}" not in described}
    assert missing <= {"evaluation.registry.METRICS"}  # a table of all; its type is described


def test_links_lead_to_pages_or_are_text() -> None:
    import site_pages as pages

    known = pages.places()
    link = pages.LINK.search("see [there](no-such-page.md)")
    assert pages.relink(link, "docs/api.md", known) == "[there](no-such-page.md)"  # mkdocs tells
    link = pages.LINK.search("[scale](docs/paper-scale.md#judges)")
    assert pages.relink(link, "README.md", known) == "[scale](paper-scale.md#judges)"
    link = pages.LINK.search("[configs/](../configs)")
    assert pages.relink(link, "docs/commands.md", known) == "configs/"
    link = pages.LINK.search("![plot](results/ssd/beta.png)")
    assert pages.relink(link, "README.md", known) == "![plot](results/ssd/beta.png)"


def outputs(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for cell in cells for one in cell.get("outputs", ())]


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    kept = [sorted(one.get("data", one)) for one in outputs(cells)]
    assert NOTEBOOK.stat().st_size < 60_000
    run_notebook.run(cells)
    assert [sorted(one.get("data", one)) for one in outputs(cells)] == kept
    said = ["".join(one["text"]) for one in outputs(cells) if "text" in one]
    assert any("drafted tokens were accepted" in text for text in said)
    assert (tmp_path / "runs/tutorial/results/index.html").stat().st_size > 100_000


def test_a_speech_is_a_player_where_a_notebook_shows_it() -> None:
    wave = np.sin(np.arange(800) / 10).astype(np.float32) / 2
    speech = Speech(wave, 16_000, Outcome([1, 2], stopped=True), 0.1)
    html = speech._repr_html_()
    data = re.fullmatch(r'<audio controls src="data:audio/wav;base64,([^"]+)"></audio>', html)
    assert data is not None
    heard, rate = soundfile.read(io.BytesIO(base64.b64decode(data[1])), dtype="float32")
    assert rate == 16_000
    assert np.abs(heard - wave).max() < 1e-4
    assert len(repr(speech)) < 100
