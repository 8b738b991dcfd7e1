"""A rater's whole way through a listening test, as a person goes it, in a real browser."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from browser_sizes import DESKTOP, PHONE
from listening_runs import make_runs, make_test, record
from listening_server import Served, served

from speculative_tts.commands.listen import main
from speculative_tts.listening.answers import read_answers
from speculative_tts.listening.key import Key, Role, Trial
from speculative_tts.records import to_row, write_jsonl

NAMES = ["target-s0-22222222", "speculative-tolerance-b0.4-k3-s0-33333333"]
pytestmark = [pytest.mark.slow, pytest.mark.whole]
SMALL = ("raters=3", "samples=1", "checks=2")
HOSTILE = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>\"'&"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs(tmp_path_factory.mktemp("listening") / "runs", NAMES, n=6, seconds=0.15)


@contextmanager
def hosted(folder: Path) -> Iterator[str]:
    """A plain web host of a test's site."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = partial(Quiet, directory=folder / "site")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Rater:
    """A person before the page; `complaints` has what the browser complained of."""

    def __init__(self, context: Any, address: str, key: Key, number: int = 2) -> None:
        self.context, self.address, self.key, self.number = context, address, key, number
        self.complaints: list[str] = []
        self.open()

    def open(self) -> None:
        self.page = self.context.new_page()
        self.page.on("console", lambda one: self._heard(one.type, one.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(self.address)

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def begin(self, name: str = "") -> None:
        self.page.fill("#number", str(self.number))
        self.page.fill("#name", name)
        self.page.click("text=Begin")

    @property
    def trials(self) -> list[Trial]:
        return self.key.raters[self.number - 1]

    def where(self) -> str:
        return str(self.page.text_content("#where"))

    def listen(self) -> None:
        """Play every clip to its end."""
        for button in self.page.locator("#trial .clip button").all():
            button.click()
            row = button.locator("xpath=..")
            row.and_(self.page.locator(".heard")).wait_for(timeout=20_000)

    def answer(self, choice: int) -> None:
        """Choose the answer of this place among those there are."""
        self.page.locator("#scale label").nth(choice).click()
        self.page.click("#next")

    def go(self, choices: list[int], practice: bool = True) -> None:
        for _ in range(len(self.key.training) if practice else 0):
            assert self.where().startswith("Practice")
            self.listen()
            self.answer(0)
        for choice in choices:
            self.listen()
            self.answer(choice)

    def fits(self) -> None:
        """Nothing sticks out sideways, and a thumb finds what it looks for."""
        wide, room = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= room
        for box in self.page.locator("button:visible, #scale label:visible").all():
            assert box.bounding_box()["height"] >= 44
        buttons = self.page.locator("#scale input:visible").all()
        assert len({one.bounding_box()["width"] for one in buttons}) <= 1  # long words shrank some


def test_the_whole_way_to_a_server(
    chromium: Any, size: dict[str, Any], runs: Path, tmp_path: Path
) -> None:
    key = make_test(tmp_path, runs, *SMALL)
    with served(tmp_path) as server:
        rater = Rater(chromium.new_context(**size), server.address, key)
        rater.fits()
        rater.begin("Ada")
        rater.fits()
        assert rater.page.locator("#next").is_disabled()  # nothing heard yet
        assert rater.page.locator("#scale input").first.is_disabled()
        choices = [i % 5 for i in range(len(rater.trials))]
        rater.go(choices)
        rater.page.wait_for_selector("text=All 4 answers have arrived")
        rater.fits()
    (sheet,) = read_answers(tmp_path / "answers", key)
    assert (sheet.rater, sheet.name) == (2, "Ada")
    assert [one.values for one in sheet.answers] == [[choice + 1] for choice in choices]
    assert all(one.plays == 1 for one in sheet.answers)
    assert all(0.2 < one.seconds < 20 for one in sheet.answers)
    assert rater.complaints == []


def test_by_keys_alone(chromium: Any, runs: Path, tmp_path: Path) -> None:
    key = make_test(tmp_path, runs, *SMALL)
    with hosted(tmp_path) as address:
        rater = Rater(chromium.new_context(**DESKTOP), f"{address}?rater=3", key, 3)
        press = rater.page.keyboard.press
        rater.page.focus("#name")
        press("Enter")
        for place in range(len(key.training) + len(rater.trials)):
            press("5")  # not before it was heard
            assert rater.page.locator("#next").is_disabled()
            press("Space")
            rater.page.locator(".clip.heard").wait_for()
            press(str(place % 5 + 1))
            press("Enter")
        assert rater.page.text_content("h1:visible") == "Thank you"
        assert downloaded(rater, tmp_path)["rater"] == 3
        rater.page.on("dialog", lambda dialog: dialog.accept())
        rater.page.click("#another")  # on the same device
        rater.begin()
        assert rater.where() == "Practice 1 of 2"
        assert rater.page.evaluate("state.answers.length") == 0
        assert rater.complaints == []


def downloaded(rater: Rater, folder: Path) -> dict[str, Any]:
    with rater.page.expect_download() as waiting:
        rater.page.click("#download")
    (folder / "answers").mkdir(exist_ok=True)
    path = folder / "answers" / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return dict(json.loads(path.read_text()))


@pytest.mark.parametrize(("test", "size"), [("smos", PHONE), ("cmos", DESKTOP), ("ab", PHONE)])
def test_every_kind_resumes_and_downloads(
    test: str, size: dict[str, Any], chromium: Any, runs: Path, tmp_path: Path
) -> None:
    """The tab is closed halfway, and the page opened again in the same browser."""
    key = make_test(tmp_path, runs, f"test={test}", "raters=3", "samples=1", "checks=2")
    with hosted(tmp_path) as address:
        rater = Rater(chromium.new_context(**size), address, key)
        rater.begin()
        half = len(rater.trials) // 2
        rater.go([1] * half)
        rater.fits()
        rater.page.close()
        rater.open()
        assert rater.where() == f"{half + 1} of {len(rater.trials)}"
        rater.go([2] * (len(rater.trials) - half), practice=False)
        sheet = downloaded(rater, tmp_path)
        rater.page.reload()  # still done
        assert rater.page.is_visible("text=Thank you")
    given = [one["values"] for one in sheet["answers"]]
    assert given[0] == {"smos": [2], "cmos": [-2], "ab": [0]}[test]
    assert [one["trial"] for one in sheet["answers"]] == list(range(len(rater.trials)))
    (read,) = read_answers(tmp_path / "answers", key)
    assert len(read.answers) == len(rater.trials)
    assert rater.complaints == []


def test_hostile_text_is_text(chromium: Any, tmp_path: Path) -> None:
    """In what was said, in who rates, and in the address."""
    runs = make_runs(tmp_path / "runs", NAMES, n=4, seconds=0.15)
    for name in NAMES:
        rows = [to_row(record(f"u{i}", "speaker1", HOSTILE)) for i in range(4)]
        write_jsonl(runs / name / "records.jsonl", rows)
    key = make_test(tmp_path, runs, *SMALL, "show_text=true")
    with served(tmp_path) as server:
        address = f"{server.address}?rater=<script>window.hacked=1</script>"
        rater = Rater(chromium.new_context(**DESKTOP), address, key, 1)
        rater.begin(HOSTILE)
        rater.go([0])
        assert rater.page.text_content("#text") == HOSTILE
        rater.go([0] * (len(rater.trials) - 1), practice=False)
        rater.page.wait_for_selector("text=All 4 answers have arrived")
        assert rater.page.evaluate("window.hacked === undefined")
        assert rater.page.locator("img, main script").count() == 0
    (sheet,) = read_answers(tmp_path / "answers", key)
    assert sheet.name == HOSTILE
    assert len(rater.complaints) <= 1  # the browser itself says that the number is none


def test_a_killed_server_loses_nothing(chromium: Any, runs: Path, tmp_path: Path) -> None:
    key = make_test(tmp_path, runs, *SMALL)
    server = Served(tmp_path)
    port = server.address.rstrip("/").rpartition(":")[2]
    rater = Rater(chromium.new_context(**DESKTOP), server.address, key)
    rater.begin()
    rater.go([1])
    rater.listen()
    rater.page.wait_for_function("JSON.parse(Object.values(localStorage)[0]).sent === 1")
    server.end()
    rater.answer(3)
    rater.page.wait_for_selector("text=No connection: your answers are kept here")
    rater.page.click("#trial .clip button")
    rater.page.wait_for_selector("text=A clip could not be loaded")
    with served(tmp_path, port):
        rater.go([4, 4], practice=False)
        rater.page.wait_for_selector("text=All 4 answers have arrived", timeout=20_000)
    (sheet,) = read_answers(tmp_path / "answers", key)
    assert [one.values for one in sheet.answers] == [[2], [4], [5], [5]]


def test_from_a_file(chromium: Any, runs: Path, tmp_path: Path) -> None:
    """Opened without any host: to look at a test before it goes out."""
    key = make_test(tmp_path, runs, *SMALL)
    address = (tmp_path / "site" / "index.html").as_uri()
    rater = Rater(chromium.new_context(**DESKTOP), address, key)
    rater.begin()
    rater.go([0])
    assert rater.where() == "2 of 4"
    assert rater.complaints == []


def test_a_good_rater_counts_and_a_careless_one_does_not(
    chromium: Any, runs: Path, tmp_path: Path
) -> None:
    """Answers of two browsers, scored."""
    key = make_test(tmp_path, runs, *SMALL)
    with served(tmp_path) as server:
        for number in (1, 2):
            rater = Rater(chromium.new_context(**DESKTOP), server.address, key, number)
            roles = [key.clips[trial.clips[0]].role for trial in rater.trials]
            good = {Role.high: 4, Role.low: 0, Role.system: 3}
            rater.begin()
            rater.go([good[role] if number == 1 else 2 for role in roles])
            rater.page.wait_for_selector("text=All 4 answers have arrived")
    assert main(["score", f"folder={tmp_path}"]) == 0
    found = json.loads((tmp_path / "scores.json").read_text())
    assert found["raters"] == 1
    assert found["left_out"]["failed"] == ["rater 2"]
    assert {one["value"] for one in found["means"].values()} == {4.0}
