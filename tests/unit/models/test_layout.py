"""The merged vocabulary and speech.json."""

import json
from pathlib import Path

import pytest
import torch

from speculative_tts.models.layout import SpeechLayout, words_in
from speculative_tts.models.prompt import Prompt

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


def test_unknown_words_are_named() -> None:
    with pytest.raises(ValueError, match="unknown words: xray; this model speaks: alpha bravo"):
        LAYOUT.text_ids("alpha xray")


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
