"""Add pages to mkdocs besides docs/: README, CONTRIBUTING, results/ and the tutorial's notebook.

This is a hook of mkdocs.yml. Links between files of the repository become links between pages; a
link to a file that is no page becomes plain text.
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
PAGES = {  # path in the repository: path on the site
    "README.md": "about.md",
    "CONTRIBUTING.md": "contributing.md",
    NOTEBOOK: "tutorial.md",
    "results/README.md": "results/overview.md",
    "results/index.html": "results/listen.html",
}
SHOWN = {".md", ".png", ".svg", ".csv", ".tex"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside docs/ to the site."""
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
    """Return a file as Markdown, or as HTML whose links to Markdown lead to pages."""
    if path.suffix == ".ipynb":
        return notebook(path)
    text = path.read_text(encoding="utf-8")
    return re.sub(r'(href="[\w/]+)\.md"', r'\1.html"', text) if path.suffix == ".html" else text


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links of the repository into links of the site."""
    known = places()
    source = next(name for name, uri in known.items() if uri == page.file.src_uri)
    return LINK.sub(lambda match: relink(match, source, known), markdown)


def places() -> dict[str, str]:
    """Map files of the repository to their places on the site."""
    shown = [path for path in sorted((ROOT / "results").rglob("*")) if path.suffix in SHOWN]
    shown += sorted((ROOT / "docs").glob("*.md"))
    names = [str(path.relative_to(ROOT)) for path in shown]
    return {name: name.removeprefix("docs/") for name in names} | PAGES


def relink(match: re.Match[str], source: str, known: dict[str, str]) -> str:
    """Return a link to its page, or its text where there is none; mkdocs reports broken ones."""
    picture, text, target, anchor = match.groups(default="")
    path = os.path.normpath(os.path.join(os.path.dirname(source), target))  # noqa: PTH118, PTH120
    if path in known:
        to = os.path.relpath(known[path], os.path.dirname(known[source]))  # noqa: PTH120
        return f"{picture}[{text}]({to}{anchor})"
    return text if (ROOT / path).exists() else match[0]


def notebook(path: Path) -> str:
    """Return a notebook as Markdown: its text, its code, and its stored outputs."""
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
