"""Check, store and read raters' answers, and decide whose count.

A sheet is what a browser sends or downloads; the answers of a browser are in one file (`store`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from speculative_tts.listening.key import Key, Role, Trial
from speculative_tts.schema.fields import Limit, NonNegative, Whole
from speculative_tts.texts import some
from speculative_tts.typed import read_json, typed, write_json

SESSION = re.compile(r"[0-9a-f]{32}")
LONGEST_NAME = 100
AGAIN = "ask the rater for it again"
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


def store(folder: Path, key: Key, sheet: Sheet) -> None:
    """Add a sheet to its browser's file, which is on disk when this returns.

    A later answer of the same browser to a trial replaces the earlier one.
    """
    path = folder / f"{sheet.rater}-{sheet.session}.json"
    earlier = _sheets([path], key) if path.is_file() else []
    (whole,) = _join([*earlier, sheet])
    write_json(path, asdict(whole))


def read_answers(place: Path, key: Key) -> list[Sheet]:
    """Read the sheets of a file or of a folder; raise ValueError where there is none."""
    alone = [place] if place.is_file() else []
    sheets = _sheets(sorted(place.glob("*.json")) if place.is_dir() else alone, key)
    if not sheets:
        raise ValueError(
            f"answers={place} holds no answers (*.json of raters or of sst-listen serve); give "
            "answers=<folder>"
        )
    return _join(sheets)


def _sheets(files: Iterable[Path], key: Key) -> list[Sheet]:
    return [parse_sheet(key, read_json(file, AGAIN), file) for file in files]


def has_answers(place: Path) -> bool:
    """Return True if a folder holds answers."""
    return any(place.glob("*.json"))


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
