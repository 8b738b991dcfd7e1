"""What a run would take, on clocks and waves that are known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_lists
from test_engine_parts import Clock
from toy_lists import decoded

from speculative_tts.decoding import engine
from speculative_tts.records import ListItem
from speculative_tts.runs import estimate as plan
from speculative_tts.runs.estimate import GIB, Plan
from speculative_tts.runs.sources.engine import EngineSource
from speculative_tts.schema.decode import System


class Recorded:
    """A source that decodes nothing: waves of 100 and 50 samples."""

    started: tuple[list[ListItem], list[ListItem]] | None = None

    def start(self, items: list[ListItem], missing: list[ListItem]) -> None:
        self.started = items, missing

    def make(self, missing: list[ListItem]) -> Any:
        return ((item, np.zeros(100 - 50 * (n % 2))) for n, item in enumerate(missing))


def test_a_source_that_decodes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six of nine are probed, evenly spread: 75 samples of two bytes each, two seconds."""
    monkeypatch.setattr(plan, "time", Clock())
    items, source = toy_lists.items(tmp_path, 9), Recorded()
    found = plan.plan(source, tmp_path, items)  # type: ignore[arg-type]
    probed = [items[n] for n in (0, 1, 3, 4, 6, 7)]
    assert source.started == (probed, probed)
    hours = 9 * (2 / 6) / 3600
    assert found == Plan(1, 9, 0, 0.0, 9 * 75 * 2, {"audio": pytest.approx(hours)}, found.longest)
    assert found.longest == pytest.approx(hours)


def test_a_list_of_utterances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten, of which two are timed and share two prompts, each stage clocked in its turn."""
    monkeypatch.setattr(plan, "time", Clock())
    monkeypatch.setattr(engine, "time", Clock())
    items = toy_lists.items(tmp_path, 10)
    source = decoded(tmp_path, timing=2)
    probed = [items[n] for n in (0, 1, 3, 5, 6, 8)]
    tokens = [len(outcome.tokens) for _, outcome in decoded(tmp_path).together(probed)]
    samples = [len(source.spoken(*one).wave) for one in decoded(tmp_path).together(probed)[:2]]
    found = plan.plan(source, tmp_path, items)
    # The clock's stages take 2, 4, 6 and 8 seconds: of two prompts, six utterances, two and two.
    expected = {"voices": 2 * 2 / 2, "timed": 2 * 6 / 2, "together": 8 * 4 / 6, "audio": 10 * 8 / 2}
    seconds = {name: 3600 * value for name, value in found.hours.items()}
    assert seconds == pytest.approx(expected)
    assert list(seconds) == list(expected)
    mean = sum(tokens) / 6
    assert found.tokens == pytest.approx(10 * mean)
    assert found.bytes == pytest.approx(10 * (2 * sum(samples) / 2 + 6 * mean))
    assert (found.runs, found.utterances, found.timed) == (1, 10, 2)
    assert 3600 * found.longest == pytest.approx(sum(expected.values()))


@pytest.mark.parametrize("bad", [1, 2])
def test_prompts_that_nobody_can_follow_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: int
) -> None:
    items = toy_lists.items(tmp_path, 2)
    source = decoded(tmp_path, timing=0)
    follow = EngineSource.follow

    def noting(self: EngineSource, some: list[ListItem]) -> None:
        follow(self, some)
        self.failed |= {item.id: "silent" for item in items[:bad]}

    monkeypatch.setattr(EngineSource, "follow", noting)
    monkeypatch.setattr(EngineSource, "start", lambda self, _, missing: self.follow(missing))
    found = plan.plan(source, tmp_path, items)
    assert found.runs == 1
    # Of the two the second alone is probed, but both are foreseen.
    probed = decoded(tmp_path).together(items[1:])
    tokens = len(probed[0][1].tokens) if bad == 1 else 0
    assert (found.utterances, found.tokens) == (2, 2 * tokens)


def test_plans_are_said_in_hours_or_minutes() -> None:
    one = Plan(1, 10, 2, 1234.0, 1.5 * GIB, {"timed": 0.5, "audio": 0.4}, 0.9)
    text = "10 utterances (2 timed), 1,234 tokens, 1.5 GiB of disk, 54.0 min"
    assert str(one) == f"{text} (timed 30.0 min, audio 24.0 min)"
    assert str(replace(one, hours={})).endswith("GiB of disk, 0.0 min (all done)")
    both = one + replace(one, hours={"audio": 0.1, "voices": 1999.9}, longest=0.1)
    assert both.longest == 0.9
    assert str(both) == (
        "20 utterances (4 timed), 2,468 tokens, 3 GiB of disk, 2,000.9 h (timed 30.0 min, audio "
        "30.0 min, voices 1,999.9 h); on several devices 2: 1,000.5 h, 4: 500.2 h, 8: 250.1 h"
    )
    assert "on several devices 2: 1.0 h, 4: 54.0 min, 8: 54.0 min" in str(
        one + replace(one, hours={"audio": 1.1})
    )


def test_a_plan_of_another_system_has_its_own_tokens(tmp_path: Path) -> None:
    items = toy_lists.items(tmp_path)
    drafts = plan.plan(decoded(tmp_path, system=System.draft, timing=0), tmp_path, items)
    found = decoded(tmp_path, system=System.draft).together(items)
    assert drafts.tokens == sum(len(outcome.tokens) for _, outcome in found)
