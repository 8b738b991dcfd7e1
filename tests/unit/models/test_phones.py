"""The layout of targets that read phones: rows on the clock of speech, filled up."""

from pathlib import Path

import pytest
import torch

from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.phones import PhoneLayout, read_layout
from speculative_tts.models.prompt import Prompt
from speculative_tts.text.phones import PHONES

CLOCK = tuple(2.6 if phone in ("aa", ",") else 1.4 for phone in PHONES)


def layout(**changes: object) -> PhoneLayout:
    merged = PhoneLayout.merged(8, PHONES)
    return PhoneLayout(**{**vars(merged), "clock": CLOCK, "block": 16, **changes})


def test_rows_follow_the_clock_and_each_phone_has_one() -> None:
    aa, b = PHONES.index("aa"), PHONES.index("b")
    assert layout().rows([b, b, b, aa]) == [1, 2, 1, 3]  # ends at 1.4, 2.8, 4.2, 6.8
    assert layout(clock=()).rows([b, aa]) == [1, 1]
    assert layout(clock=(0.1,) * len(PHONES)).rows([b] * 3) == [1, 1, 1]


def test_the_prompt_is_filled_up_so_that_speech_begins_at_one_distance() -> None:
    voice = torch.tensor([1, 2, 3])
    short, long = (
        layout().prompt_ids(Prompt(text, "<b aa .>", voice)) for text in ("<b .>", "<b aa b aa .>")
    )
    for ids in (short, long):
        assert ids[0] == layout().sos_id
        assert ids[-4:] == [layout().task_id, 1, 2, 3]
        assert (len(ids) - 5) % 16 == 0
    assert layout().fill_id in short
    assert len(layout(block=0).prompt_ids(Prompt("<b .>"))) == 2 + 1 + 2


def test_both_texts_keep_clocks_of_their_own() -> None:
    """The rows of a voice prompt's text do not depend on what is said after it."""
    one, two = layout().text_ids("<b aa .>"), layout().text_ids("<aa b .>")
    assert layout().text_ids("<aa b .>", "<b aa .>") == one + two
    assert layout().text_length("<b aa .>") == len(one)


def test_a_folder_says_which_layout_it_has(tmp_path: Path) -> None:
    layout().save(tmp_path)
    assert read_layout(tmp_path) == layout()
    SpeechLayout.merged(8, ("one", "two")).save(tmp_path)
    assert type(read_layout(tmp_path)) is SpeechLayout


def test_what_cannot_be_said_is_an_error() -> None:
    with pytest.raises(ValueError, match="'qq' is no phone"):
        layout().prompt_ids(Prompt("<qq>"))
    with pytest.raises(ValueError, match="empty"):
        layout().prompt_ids(Prompt(" "))
