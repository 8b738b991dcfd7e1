"""Check, store and read raters' answers, and decide whose count.

A sheet is what a browser sends or downloads. The answers of all browsers are in one SQLite file
(`Store`), or in one file per browser.
"""

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from speculative_tts.listening.key import Key, Role, Trial
from speculative_tts.schema.fields import Limit, NonNegative, Whole
from speculative_tts.texts import some
from speculative_tts.typed import json_text, read_json, typed

DATABASE = "answers.sqlite"
SESSION = re.compile(r"[0-9a-f]{32}")
LONGEST_NAME = 100
TABLE = (
    "CREATE TABLE IF NOT EXISTS answers (session TEXT, trial INTEGER, test TEXT, rater INTEGER, "
    "name TEXT, vals TEXT, seconds REAL, plays INTEGER, "
    "at TEXT DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (session, trial))"
)
HIGH, LOW = 4, 2  # on 1 to 5: least rating of a high check, largest of a low one


@dataclass(frozen=True)
class Answer:
    """A rater's answer to one of their trials."""

    trial: Whole
    values: list[float]
    seconds: NonNegative
    plays: Whole


@dataclass(frozen=True)
class Sheet:
    """Answers of one rater from one browser."""

    test: str
    rater: Annotated[int, Limit(1)]
    name: str
    session: str
    answers: list[Answer]


@dataclass(frozen=True)
class RatedTrial:
    """A trial with its answer."""

    trial: Trial
    values: Sequence[float]


@dataclass(frozen=True)
class Screened:
    """The raters who count, and those left out by reason."""

    counted: dict[str, list[RatedTrial]]
    failed: tuple[str, ...]
    unfinished: tuple[str, ...]
    repeated: tuple[str, ...]

    @property
    def reasons(self) -> list[str]:
        """One line for each reason to leave raters out."""
        by_reason = {
            "failed attention checks": self.failed,
            "did not finish": self.unfinished,
            "stands for a number already counted": self.repeated,
        }
        return [
            f"left out, {why}: {len(raters)} ({some(raters)})"
            for why, raters in by_reason.items()
            if raters
        ]


def parse_sheet(key: Key, values: Any, where: object) -> Sheet:
    """Build a sheet from JSON values; raise ValueError for what this test's page never sends."""
    if not isinstance(values, dict):
        raise ValueError(f"{where} is not a sheet of answers; give an object")
    sheet = typed(Sheet, values, where)
    if sheet.test != key.id:
        raise ValueError(f"{where}: answers to test {sheet.test[:40]!r}, this is {key.id}")
    if not 1 <= sheet.rater <= len(key.raters):
        raise ValueError(f"{where}: rater {sheet.rater}, there are {len(key.raters)}")
    if not SESSION.fullmatch(sheet.session) or len(sheet.name) > LONGEST_NAME:
        raise ValueError(f"{where}: session or name is not what the page sends")
    for answer in sheet.answers:
        _check_answer(key, sheet.rater, answer, where)
    return sheet


def _check_answer(key: Key, rater: int, answer: Answer, where: object) -> None:
    trials, scale = key.raters[rater - 1], key.scale
    if answer.trial >= len(trials):
        raise ValueError(f"{where}: trial {answer.trial}, rater {rater} has {len(trials)}")
    allowed = all(float(v).is_integer() and scale.least <= v <= scale.most for v in answer.values)
    if len(answer.values) != 1 or not allowed:
        raise ValueError(
            f"{where}: trial {answer.trial} is {answer.values[:9]}; "
            f"1 of {scale.least} to {scale.most} are wanted"
        )


class Store:
    """Answers in one SQLite file; they are on disk when `add` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path)
        self._base.execute("PRAGMA journal_mode=DELETE")  # one file, also while it is open
        self._base.execute("PRAGMA synchronous=EXTRA")
        with self._base:
            self._base.execute(TABLE)

    def add(self, sheet: Sheet) -> None:
        """Store a sheet's answers; a later answer of the same browser replaces the earlier one."""
        rows = [
            (
                *(sheet.session, one.trial, sheet.test, sheet.rater, sheet.name),
                *(json_text(one.values), one.seconds, one.plays),
            )
            for one in sheet.answers
        ]
        with self._base:
            self._base.executemany(
                "INSERT OR REPLACE INTO answers (session, trial, test, rater, name, vals, seconds, "
                "plays) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def close(self) -> None:
        """Close the file."""
        self._base.close()


def read_answers(place: Path, key: Key) -> list[Sheet]:
    """Read the sheets of a server's file or of a folder; raise ValueError where there is none."""
    if place.is_dir():
        files = sorted([*place.glob("*.json"), *place.glob("*.sqlite")])
    else:
        files = [place] if place.is_file() else []
    sheets = [one for file in files for one in _sheets(file, key)]
    if not sheets:
        raise ValueError(
            f"answers={place} holds no answers (*.json of raters, or {DATABASE} of sst-listen "
            "serve); give answers=<folder>"
        )
    return _join(sheets)


def _sheets(file: Path, key: Key) -> list[Sheet]:
    if file.suffix != ".sqlite":
        return [parse_sheet(key, read_json(file, "ask the rater for it again"), file)]
    sheets = []
    for test, rater, name, session, trial, values, seconds, plays in _rows(file):
        answer = {"trial": trial, "values": json.loads(values), "seconds": seconds, "plays": plays}
        row = {"test": test, "rater": rater, "name": name, "session": session, "answers": [answer]}
        sheets.append(parse_sheet(key, row, file))
    return sheets


def _rows(file: Path) -> list[tuple[Any, ...]]:
    """Read all answers in a server's file."""
    base = sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True)
    try:
        return base.execute(
            "SELECT test, rater, name, session, trial, vals, seconds, plays FROM answers"
        ).fetchall()
    except sqlite3.Error as error:
        raise ValueError(
            f"{file} is not a file of sst-listen serve ({error}); give another"
        ) from error
    finally:
        base.close()


def has_answers(place: Path) -> bool:
    """Return True if a folder holds answers."""
    return any(place.glob("*.json")) or any(_rows(one) for one in place.glob("*.sqlite"))


def _join(sheets: Iterable[Sheet]) -> list[Sheet]:
    """Join the sheets of each browser: it may have both sent and downloaded the same answers."""
    answers: dict[tuple[str, int], dict[int, Answer]] = defaultdict(dict)
    last: dict[tuple[str, int], Sheet] = {}
    for one in sheets:
        last[one.session, one.rater] = one
        answers[one.session, one.rater] |= {answer.trial: answer for answer in one.answers}
    return [
        Sheet(one.test, one.rater, one.name, one.session, list(answers[browser].values()))
        for browser, one in last.items()
    ]


def screen(key: Key, sheets: Sequence[Sheet], *, partial: bool = False) -> Screened:
    """Choose the raters who count: those who finished and passed every check, one per number.

    If two browsers used one number, the sheet with more answers counts.
    """
    counted: dict[str, list[RatedTrial]] = {}
    failed, unfinished, repeated = [], [], []
    for one in sorted(sheets, key=lambda sheet: (sheet.rater, -len(sheet.answers), sheet.session)):
        trials = key.raters[one.rater - 1]
        rated = [RatedTrial(trials[answer.trial], answer.values) for answer in one.answers]
        name = f"rater {one.rater}"
        if name in counted:
            repeated.append(name)
        elif not all(_passed(key, one) for one in rated if key.is_check(one.trial)):
            failed.append(name)
        elif len(rated) < len(trials) and not partial:
            unfinished.append(name)
        else:
            counted[name] = rated
    return Screened(counted, tuple(failed), tuple(unfinished), tuple(repeated))


def _passed(key: Key, one: RatedTrial) -> bool:
    """Return True if a check has its right answer: high, low, or the recording as better."""
    last = key.clips[one.trial.clips[-1]].role
    if len(one.trial.clips) == 2:
        return one.values[0] > 0 if last is Role.high else one.values[0] < 0
    return one.values[0] >= HIGH if last is Role.high else one.values[0] <= LOW
