"""The Python of README and docs/api.md runs as it stands there; pages lead where they say."""

import importlib
import pkgutil
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from speculative_tts.assets import resolve
from speculative_tts.records import read_list, write_jsonl

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(page: str) -> list[str]:
    """Fenced Python of a page, in order."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.whole
@pytest.mark.parametrize("page", ["README.md", "docs/api.md"])
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(page)
    assert found
    names: dict[str, Any] = {}
    for text in found:
        exec(compile(text, page, "exec"), names)
    assert (tmp_path / "hello.wav").stat().st_size > 10_000


QUICK = {"decode": ["instrument=0", "runtime.warmup=0"], "eval": ["metrics=[wer]", "workers=1"]}


@pytest.mark.whole
@pytest.mark.slow
def test_the_readmes_walk_from_decoding_to_a_page_with_other_audio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands one after another in an empty folder, of two utterances, judged by words.

    The first experiment drafts by the recurrent layer: by the second model it showed no speedup.
    """
    monkeypatch.chdir(tmp_path)
    block = README.partition("## Decode, score, report")[2].split("```")[1].removeprefix("bash\n")
    walk = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert [Path(words[0]).name for words in walk] == [
        *("sst-decode", "sst-eval", "sst-eval", "sst-report")
    ]
    test_list = resolve("tiny:testset/list.jsonl")
    items = read_list(test_list)
    theirs = [
        {"id": one.id, "text": one.text, "audio": str(one.reference_audio)}
        for one in (items[0], items[len(items) // 2])
    ]
    write_jsonl(tmp_path / "theirs.jsonl", theirs)
    for program, *given in walk:
        name = Path(program).name.removeprefix("sst-")
        words = [word.replace("limit=20", "limit=2") for word in given] + QUICK.get(name, [])
        assert importlib.import_module(f"speculative_tts.commands.{name}").main(words) == 0
    page = (tmp_path / "runs" / "first-report" / "index.html").read_text()
    assert 'data-section="runs"' in page
    assert "speculative-exact-k3-recurrent-s0" in page
    assert 'data-section="others"' in page
    assert '"theirs"' in page


def test_promised_names_are_shown_in_an_example() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    table = text.partition("| name | is |")[2].partition("\n\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    promised = re.findall(r"`([\w.<>]+)`", " ".join(line.split("|")[1] for line in rows))
    shown = "\n".join(blocks("docs/api.md"))
    assert len(promised) >= 12
    module = ""
    for name in promised:
        above, _, last = name.rpartition(".")
        module = above or module  # `bootstrap`, `paired_bootstrap`: of one module
        if last != "Speech":  # what Speaker.speak returns
            assert re.search(rf"\b{last}\b", shown), name
        if "<" not in module:
            assert pkgutil.resolve_name(f"speculative_tts.{module}:{last}")


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "results/README.md",
    "results/LOG.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "results/log").glob("*.md")),
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")),
]


def anchors(path: Path, level: str = "#+") -> list[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(rf"^{level} (.*)$", path.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for link in re.findall(r"\]\(([^)\s]+)", path.read_text()):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert link.startswith("http") or target.exists(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


@pytest.mark.parametrize("year", sorted((ROOT / "results/log").glob("*.md")), ids=lambda p: p.stem)
def test_every_entry_of_the_log_stands_in_its_index(year: Path) -> None:
    index = (ROOT / "results/LOG.md").read_text()
    entries = anchors(year, "##")
    assert entries
    missing = [entry for entry in entries if f"(log/{year.name}#{entry})" not in index]
    assert not missing, "give each a line in results/LOG.md"


def test_readme_is_short_and_has_one_table_and_one_picture() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 80
    assert len(re.findall(r"^\|[-|: ]+\|$", text, re.MULTILINE)) == 1
    assert text.count("![") == 1
    (example,) = blocks("README.md")
    assert len(example.splitlines()) <= 10
