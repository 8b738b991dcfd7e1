"""The page of sst-report in a browser: from a file, without network, on a desktop and a phone."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from synthetic_runs import make_run, make_ssd_runs

from speculative_tts.commands.report import main
from speculative_tts.records import write_jsonl
from speculative_tts.typed import write_json

pytestmark = pytest.mark.whole
HOSTILE = "</script><script>document.title='hacked'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SSD's section, and one of a system whose texts attack the page."""
    folder = tmp_path_factory.mktemp("page")
    make_ssd_runs(folder / "runs", n=24)
    for run in (folder / "runs").glob("speculative-tolerance-b0.4-k3-*"):
        rows = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
        for row in rows:
            row["split"] = {"per_round": [[3, 3], [3, 1], [3, 0]]}
        write_jsonl(run / "records.jsonl", rows)
    sound = 0.1 * np.sin(np.arange(3 * 16_000) * 0.05)
    for path in (folder / "runs").glob("*/audio/*.wav"):
        if path.parent.parent.name.startswith(
            ("draft-", "target-", "speculative-tolerance-b0.4-k3-")
        ):
            soundfile.write(path, sound, 16_000)
    foreign = make_run(folder / "runs", "target", seed=9, n=24)
    scores = [json.loads(line) for line in (foreign / "scores.jsonl").read_text().splitlines()]
    for row in scores:
        row["hypothesis"] = HOSTILE
    write_jsonl(foreign / "scores.jsonl", scores)
    summary = json.loads((foreign / "summary.json").read_text())
    write_json(foreign / "summary.json", summary | {"run": {"system": "external", "list": HOSTILE}})
    (foreign / "config.json").unlink()
    foreign.rename(foreign.with_name("<b>theirs | [x](http:y)"))
    assert main([f"runs={folder / 'runs'}", f"out={folder / 'out'}"]) == 0
    return folder / "out" / "index.html"


@pytest.fixture
def tab(chromium: Any, size: dict[str, Any], page: Path) -> Iterator[Any]:
    """The page, opened; nothing may be said on the console, and nothing asked of a network."""
    context = chromium.new_context(**size, color_scheme="dark" if size.get("is_mobile") else None)
    shown, said = context.new_page(), []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("request", lambda one: said.append(one.url) if one.url.startswith("http") else None)
    shown.goto(page.as_uri())
    yield shown
    assert not said
    context.close()


def test_a_visitors_questions_are_answered_first(tab: Any) -> None:
    """How much faster, what it costs, how sure, what: without scrolling, on a phone too."""
    answers = tab.locator(".answers div")
    assert answers.count() == 4
    told = ("\N{MULTIPLICATION SIGN}", "keeps the target's distribution", "24 utterances", "SSD")
    for i, words in enumerate(told):
        assert words in answers.nth(i).inner_text()
        assert answers.nth(i).bounding_box()["y"] < tab.viewport_size["height"] * 0.6
    answers.nth(0).get_by_role("link", name="Hear the rules").click()
    assert tab.locator("#listen").bounding_box()["y"] < tab.viewport_size["height"]
    assert answers.nth(2).get_by_role("link").first.get_attribute("href").startswith("ssd/")
    assert tab.locator("#summary svg.chart").bounding_box()["y"] < tab.viewport_size["height"] * 1.1
    assert tab.locator("#summary svg.chart path").count() >= 4  # draft, target, exact, SSD
    assert tab.locator(".listen").bounding_box()["y"] < tab.locator("#papers").bounding_box()["y"]


def test_too_few_utterances_are_told(chromium: Any, tmp_path: Path) -> None:
    """A trial of four said "not timed" beside a plot of speeds, and spoke of bars that were not."""
    make_ssd_runs(tmp_path / "runs", n=4)
    assert main([f"runs={tmp_path / 'runs'}", f"out={tmp_path}"]) == 0
    shown = chromium.new_page()
    shown.goto((tmp_path / "index.html").as_uri())
    answers = shown.locator(".answers div").all_inner_texts()
    assert "Too few timed utterances to say" in answers[0]
    assert "Below ten utterances nothing has an interval." in answers[2]
    shown.close()


SHIPPED = Path(__file__).resolve().parents[2] / "results" / "index.html"


@pytest.fixture
def shipped(chromium: Any, size: dict[str, Any]) -> Iterator[Any]:
    """The page that ships."""
    context = chromium.new_context(**size)
    shown = context.new_page()
    shown.goto(SHIPPED.as_uri())
    shown.wait_for_selector("#summary svg.chart text.tag")
    yield shown
    context.close()


def test_the_plot_is_filled_by_what_works(shipped: Any) -> None:
    """Heads that err on 50 to 75 % stretched the axis until all else was one heap of labels."""
    ticks = shipped.locator("#summary svg.chart text[text-anchor=end]").all_text_contents()
    assert max(map(float, ticks)) <= 15
    tags = shipped.locator("#summary svg.chart text.tag")
    boxes = [tags.nth(i).bounding_box() for i in range(tags.count())]
    told = tags.all_text_contents()
    assert "recordings through the codec" in told
    assert (
        sum(one.startswith("draft alone: 4") for one in told) == 2
    )  # SSD's and PCG's: one hid the other
    assert (
        sum(one.endswith(("no loss", "under 1 point")) for one in told) == 2
    )  # a phone had neither
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            apart = (
                a["x"] + a["width"] <= b["x"] + 1
                or b["x"] + b["width"] <= a["x"] + 1
                or a["y"] + a["height"] <= b["y"] + 3
                or b["y"] + b["height"] <= a["y"] + 3
            )
            assert apart, (a, b)


def test_a_mark_leads_to_the_table_of_its_speed(shipped: Any) -> None:
    """The table has the figure, and each paper has marks."""
    marks = shipped.locator("#summary svg.chart a")
    seen = set()
    for i in range(marks.count()):
        link, told = marks.nth(i).get_attribute("href"), marks.nth(i).text_content()
        (speed,) = re.findall(r": ([0-9.]+)\N{MULTIPLICATION SIGN}", told)
        assert re.search(rf"\| {speed}( [^|]+)? \|", (SHIPPED.parent / link).read_text()), told
        seen.add(link.partition("/")[0])
    assert seen == {"ssd", "pcg", "mtp", "drafters"}


def test_no_two_series_of_the_plot_look_alike(shipped: Any) -> None:
    """PCG and the tiny system were both green triangles: sections without points counted."""
    marks = shipped.locator("#summary .legend path")
    looks = [
        (marks.nth(i).get_attribute("d"), marks.nth(i).get_attribute("fill"))
        for i in range(marks.count())
    ]
    assert len(looks) >= 4
    assert len({*looks}) == len({shape for shape, _ in looks}) == len(looks)


def test_a_claims_verdict_is_seen_without_scrolling_sideways(shipped: Any) -> None:
    """It stood in a column to the right of a screen of 1,280 pixels, and of a phone's."""
    verdict = shipped.locator("td.verdict:visible").first
    box, claim = verdict.bounding_box(), shipped.locator("tbody th:visible").first.bounding_box()
    assert box["x"] + box["width"] <= shipped.viewport_size["width"]
    assert box["x"] - claim["x"] < 0.25 * shipped.viewport_size["width"]
    assert verdict.evaluate("e => getComputedStyle(e).color") != shipped.locator(
        "td.words:visible"
    ).first.evaluate("e => getComputedStyle(e).color")


def test_nothing_is_wider_than_the_screen(tab: Any) -> None:
    tabs = tab.get_by_role("tab")
    for i in range(tabs.count()):
        if tabs.nth(i).is_visible():
            tabs.nth(i).click()
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), i
    first = tab.get_by_role("tab", name="SSD Table 1")
    tab.get_by_role("tab", name="SSD", exact=True).click()
    first.click()
    column = tab.locator("tbody th:visible").first.bounding_box()["width"]
    assert column < 0.4 * tab.viewport_size["width"]


def test_audio_plays_and_is_switched_at_the_same_place(tab: Any) -> None:
    tab.evaluate(
        "() => { const media = HTMLMediaElement.prototype, play = media.play; window.heard = []; "
        "media.play = function () { heard.push(this); return play.call(this); } }"
    )
    tab.get_by_role("button", name="Play").click()
    tab.wait_for_function("heard[0]?.currentTime > 0.5")
    tab.keyboard.press("2")
    tab.wait_for_function("heard[1]?.currentTime > 0.5 && heard[0].paused")
    assert tab.locator(".clip").nth(1).get_attribute("data-on") == "true"
    assert tab.locator(".clip[data-on=true]").count() == 1
    tab.get_by_role("button", name="Pause").click()
    assert tab.evaluate("heard.every(sound => sound.paused)")
    wave = tab.locator(".clip canvas").first
    box = wave.bounding_box()
    wave.click(position={"x": 0.7 * box["width"], "y": box["height"] / 2})
    tab.wait_for_function("heard[2]?.currentTime > 0.69 * heard[2].duration")


def test_strips_tell_tokens_and_spectrograms_are_drawn(tab: Any) -> None:
    strips = tab.locator("canvas.strip")
    tab.wait_for_function("document.querySelector('canvas.strip')?.title")
    told = strips.first.get_attribute("title")
    assert told == "8 tokens: 1 first, 4 accepted, 2 residual, 1 bonus"
    tab.get_by_label("spectrograms").check()
    tab.wait_for_function(
        "(c => c && c.width && c.getContext('2d').getImageData(0, 0, c.width, c.height).data"
        ".some((v, i) => i % 4 === 0 && v > 150))(document.querySelector('canvas.tall'))"
    )
    tab.get_by_label("all systems").check()
    assert tab.locator(".clip").count() == 6 + 1  # theirs too


def test_tables_sort_and_utterances_filter(tab: Any) -> None:
    tab.get_by_role("tab", name="SSD Table 3").click()
    table = tab.locator("table:visible").first
    heading = table.locator("thead th").nth(1)
    for direction, order in (("ascending", 1), ("descending", -1)):
        heading.get_by_role("button").click()
        assert heading.get_attribute("aria-sort") == direction
        cells = table.locator("tbody tr td:nth-child(2)").all_inner_texts()
        numbers = [float(cell.split("\n")[0]) for cell in cells if cell[0].isdigit()]
        assert numbers == sorted(numbers, reverse=order < 0)
        assert len(numbers) >= 5
    tab.get_by_role("tab", name="Utterances").click()
    rows = tab.locator("tbody tr:visible")
    assert rows.count() == 24
    tab.get_by_label("Filter utterances").fill("speaker1 utt00")
    kept = rows.locator("th").all_inner_texts()
    assert 0 < len(kept) < 24
    assert all("speaker1" in text and "utt00" in text for text in kept)
    assert tab.locator("td .substitute").count() + tab.locator("td .delete").count() > 0


def test_no_tab_has_the_name_of_a_file(tab: Any) -> None:
    """Two titles that began alike became "beta" and "tradeoff"."""
    names = [one.inner_text() for one in tab.get_by_role("tab").all() if one.is_visible()]
    assert {"SSD tolerance", "SSD trade-off"} <= set(names)
    assert all(name[0].isupper() for name in names), names


def test_tabs_by_keyboard(tab: Any) -> None:
    first = tab.get_by_role("tab", name="SSD Table 1")
    first.focus()
    tab.keyboard.press("ArrowRight")
    second = tab.get_by_role("tab", name="SSD Table 3")
    assert second.get_attribute("aria-selected") == "true"
    assert second.evaluate("e => e === document.activeElement")
    tab.keyboard.press("Home")
    assert first.get_attribute("aria-selected") == "true"
    assert tab.get_by_role("heading", name="SSD Table 1").is_visible()


def test_what_others_say_is_text(tab: Any, page: Path) -> None:
    """Names, transcripts and paths of other systems: on the page, and in Markdown."""
    assert "hacked" not in tab.title()
    tab.get_by_role("tab", name="Other systems").click()
    assert "<b>theirs" in tab.locator("tbody th:visible").first.inner_text()
    tab.get_by_role("tab", name="Utterances").last.click()
    assert "</script>" in tab.locator("td:visible").first.inner_text()
    assert tab.locator("img").count() == 0
    text = (page.parent / "others" / "others.md").read_text()
    assert "| \\<b>theirs \\| [x]\\(http:y) |" in text
    assert "\n- \\<b>theirs" in text
    assert "<script" not in text.replace("\\<script", "")
