"""Layouts of merged vocabularies and speech.json, of words and of phones."""

import json
from pathlib import Path

import pytest
import torch

from speculative_tts.models.layout import SpeechLayout, words_in
from speculative_tts.models.phones import PhoneLayout, read_layout
from speculative_tts.models.prompt import Prompt
from speculative_tts.text.phones import PHONES

LAYOUT = SpeechLayout.merged(2048, ("alpha", "bravo"), {"temperature": 0.7, "top_k": 20})


def test_rows_follow_each_other() -> None:
    assert (LAYOUT.eos_id, LAYOUT.speech_vocab_size, LAYOUT.text_offset) == (2048, 2049, 2049)
    assert (LAYOUT.sos_id, LAYOUT.task_id, LAYOUT.vocab_size) == (2051, 2052, 2053)


def test_input_is_cosyvoice_2s() -> None:
    ids = LAYOUT.prompt_ids(Prompt("Alpha.", "bravo bravo", torch.tensor([5, 6])))
    assert ids == [2051, 2050, 2050, 2049, 2052, 5, 6]


def test_saved_and_loaded_layout_is_the_same(tmp_path: Path) -> None:
    LAYOUT.save(tmp_path)
    assert SpeechLayout.from_folder(tmp_path) == LAYOUT


def test_nothing_to_say_is_refused() -> None:
    with pytest.raises(ValueError, match="the text is empty"):
        LAYOUT.text_ids(" - ", "alpha")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"n_codes": 3}'])
def test_what_is_not_a_layout_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "speech.json").write_text(content)
    with pytest.raises(ValueError, match=r"speech.json.*; (export the checkpoint again|give )"):
        SpeechLayout.from_folder(tmp_path)


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    LAYOUT.save(tmp_path)
    path = tmp_path / "speech.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 2}))
    with pytest.raises(ValueError, match="format 2; this version reads 1"):
        SpeechLayout.from_folder(tmp_path)


def test_a_folder_without_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no speech\.json"):
        SpeechLayout.from_folder(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("7 8", ["seven", "eight"]),
        ("alpha,bravo", ["alpha", "bravo"]),
        ("Alpha-7: (bravo)... 40!", ["alpha", "seven", "bravo", "four", "zero"]),
        ("it's the dog's", ["it's", "the", "dog's"]),
        ("one_two\tthree", ["one", "two", "three"]),
        (" - ... ", []),
    ],
)
def test_words_of_a_text_as_people_write_them(text: str, words: list[str]) -> None:
    """`7 8` and `alpha,bravo` were unknown words."""
    assert words_in(text) == words


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
