"""The merged vocabulary and speech.json."""

from pathlib import Path

import pytest

from speculative_tts.training.layout import Sampling, SpeechLayout

LAYOUT = SpeechLayout(2048, ("alpha", "bravo"), sampling=Sampling(0.7, 20, 0.8))


def test_rows_follow_each_other() -> None:
    assert (LAYOUT.eos_id, LAYOUT.speech_vocab_size, LAYOUT.text_offset) == (2048, 2049, 2049)
    assert (LAYOUT.sos_id, LAYOUT.task_id, LAYOUT.vocab_size) == (2051, 2052, 2053)


def test_input_is_cosyvoice_2s() -> None:
    ids = LAYOUT.model_input("alpha", prompt_text="bravo bravo", prompt_codes=[5, 6])
    assert ids == [2051, 2050, 2050, 2049, 2052, 5, 6]


def test_saved_and_loaded_layout_is_the_same(tmp_path: Path) -> None:
    LAYOUT.save(tmp_path / "speech.json")
    assert SpeechLayout.load(tmp_path / "speech.json") == LAYOUT


def test_unknown_words_are_named() -> None:
    with pytest.raises(ValueError, match=r"unknown words \['xray'\]"):
        LAYOUT.encode_text("alpha xray")
