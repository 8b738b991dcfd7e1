"""Which strings go where."""

import numpy as np

from speculative_tts_makers.corpora.plan import (
    MIN_RESERVED_WORDS,
    draw_words,
    plan_list,
    plan_takes,
)
from speculative_tts_makers.corpora.speakers import SPEAKERS


def test_evaluation_strings_are_never_trained_on_nor_shared() -> None:
    reserved: set[tuple[str, ...]] = set()
    test_prompts, test_rows = plan_list("test", 8, 1, reserved)
    dev_prompts, dev_rows = plan_list("dev", 4, 1, reserved)
    strings = [item.words for item in (*test_prompts, *test_rows, *dev_prompts, *dev_rows)]
    assert len(strings) == len(set(strings)) == len(reserved)
    takes = plan_takes(4000, (1, 3), 1, reserved)
    assert not reserved & {take.words for take in takes}


def test_the_test_list_covers_every_speaker() -> None:
    prompts, rows = plan_list("test", 8, 1, set())
    assert len(rows) == 8 * len(SPEAKERS) >= 240
    assert {row.speaker for row in rows} == set(SPEAKERS)
    assert {row.prompt_id for row in rows} == {prompt.id for prompt in prompts}
    assert all(MIN_RESERVED_WORDS <= len(row.words) <= 8 for row in rows)


def test_heldout_speakers_have_every_voice_and_are_not_trained_on() -> None:
    heldout = [speaker for speaker in SPEAKERS if not speaker.seen]
    assert {speaker.voice for speaker in heldout} == {speaker.voice for speaker in SPEAKERS}
    trained = {speaker for take in plan_takes(500, (1, 3), 1, set()) for speaker in take.speakers}
    assert trained == {speaker for speaker in SPEAKERS if speaker.seen}


def test_names_are_unique() -> None:
    assert len({speaker.name for speaker in SPEAKERS}) == len(SPEAKERS) == 30


def test_plans_depend_on_the_seed_only() -> None:
    assert plan_takes(50, (1, 3), 1, set()) == plan_takes(50, (1, 3), 1, set())
    assert plan_takes(50, (1, 3), 1, set()) != plan_takes(50, (1, 3), 2, set())
    assert plan_list("dev", 1, 1, set()) != plan_list("test", 1, 1, set())


def test_most_strings_repeat_no_word() -> None:
    rng = np.random.default_rng(0)
    strings = [draw_words(rng, 8) for _ in range(400)]
    repeated = sum(len(set(words)) < len(words) for words in strings)
    assert 10 < repeated < 100
