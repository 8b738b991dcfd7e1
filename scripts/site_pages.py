"""What mkdocs shows besides docs/: README, CONTRIBUTING and results/, and the tutorial's notebook.

A hook of mkdocs.yml. Links between files of the repository become links between pages; those to
files that are no page are told by their text alone.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
NOTEBOOK = "docs/tutorial.ipynb"
PAGES = {  # of the repository -> of the site
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    NOTEBOOK: "tutorial.md",
    "results/README.md": "results/overview.md",
    "results/index.html": "results/listen.html",
}
SHOWN = {".md", ".png", ".svg", ".csv", ".tex"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the files that lie elsewhere."""
    for source, uri in places().items():
        if source.startswith("docs/") and source != NOTEBOOK:
            continue
        path = ROOT / source
        if path.suffix in {".md", ".html", ".ipynb"}:
            files.append(File.generated(config, uri, content=_text(path)))
        else:
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def _text(path: Path) -> str:
    """A file as Markdown, or as a page whose links to Markdown lead to pages."""
    if path.suffix == ".ipynb":
        return notebook(path)
    text = path.read_text(encoding="utf-8")
    return re.sub(r'(href="[\w/]+)\.md"', r'\1.html"', text) if path.suffix == ".html" else text


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of the repository as links of the site."""
    known = places()
    source = next(name for name, uri in known.items() if uri == page.file.src_uri)
    return LINK.sub(lambda found: _linked(found, source, known), markdown)


def places() -> dict[str, str]:
    """Where on the site a file of the repository is."""
    shown = [path for path in sorted((ROOT / "results").rglob("*")) if path.suffix in SHOWN]
    shown += sorted((ROOT / "docs").glob("*.md"))
    found = {str(path.relative_to(ROOT)): str(path.relative_to(ROOT)) for path in shown}
    return {name: uri.removeprefix("docs/") for name, uri in found.items()} | PAGES


def _linked(found: re.Match[str], source: str, known: dict[str, str]) -> str:
    """A link that leads to its page; its text where there is none. mkdocs tells the broken ones."""
    picture, text, target, anchor = found.groups(default="")
    path = os.path.normpath(os.path.join(os.path.dirname(source), target))  # noqa: PTH118, PTH120
    if path in known:
        to = os.path.relpath(known[path], os.path.dirname(known[source]))  # noqa: PTH120
        return f"{picture}[{text}]({to}{anchor})"
    return text if (ROOT / path).exists() else found[0]


def notebook(path: Path) -> str:
    """A notebook as Markdown: its text, its code, and what it last said."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _cell(cell)) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if image := data.get("image/png"):
            yield f"![What the cell draws](data:image/png;base64,{''.join(image).strip()})"
        elif text := "".join(output.get("text", data.get("text/plain", ""))).strip():
            yield f"```text\n{text}\n```"
