"""A checkpoint says what lengths it was trained on, and sst-speak warns beyond them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from speculative_tts import assets
from speculative_tts.api import Speaker
from speculative_tts.commands.speak import _note_length
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.phones import read_layout
from speculative_tts_makers.training.recordings import Recording, RecordingsBySpeaker

SHIPPED = [SpeechLayout.from_folder(assets.TINY / name) for name in ("target", "target_fine")]

SENTENCES = read_layout(assets.TINY / "target_sentences")


def engine_of(layout: SpeechLayout) -> Any:
    return SimpleNamespace(target=SimpleNamespace(layout=layout))


@pytest.mark.parametrize("layout", SHIPPED)
def test_a_longer_text_is_told(layout: SpeechLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """At 16 words the shipped voice babbled on (145 % word errors), without a word."""
    for text, told in (("alpha " * 8, False), ("alpha " * 9, True), ("1234 56789", True)):
        _note_length(text, engine_of(layout))
        said = capsys.readouterr().err
        assert bool(said) is told
        assert not told or "9 words and this model was trained on 1 to 8" in said


def test_a_single_word_has_room_to_end_and_a_remedy_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """ "hello" was cut at 17 codes of the 20 that it takes, and was to be spoken in parts."""
    fewest, most = SENTENCES.limits("hello", 0, 0.7, 1.6)
    assert (fewest, most) == (7, 21)
    _note_length("hello", engine_of(SENTENCES))
    said = capsys.readouterr().err
    assert "the text has 1 word and this model was trained on 3 to 30" in said
    assert "put it into a sentence" in said
    _note_length(" <hh ax l ow> ", engine_of(SENTENCES))
    assert not capsys.readouterr().err
    assert SENTENCES.text_ids(" <hh ax l ow> ") == SENTENCES.text_ids("<hh ax l ow .>")


def test_a_checkpoint_without_lengths_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    _note_length("alpha " * 30, engine_of(replace(SHIPPED[0], trained_words=())))
    assert not capsys.readouterr().err


def test_lengths_are_those_of_the_recordings() -> None:
    """Longer ones than the last stage takes are never drawn."""

    def of(n: int) -> tuple[Recording, ...]:
        return (Recording(np.zeros(n, int), np.zeros(8, int), 0, np.zeros(n, int)),)

    data = RecordingsBySpeaker(({2: of(2), 7: of(7)}, {3: of(3), 20: of(20)}))
    assert data.trained_words == (2, 7)


LONG = (
    "she said that the train would leave at seven in the evening but nobody had told us which "
    "platform it would leave from so we stood in the hall and waited for a word"
)


def stretch(target: str, words: list[str], most: int, voice: str | None = None) -> float:
    """Return how many times as long a word takes among `most` as among eight."""
    speaker, seconds = Speaker(f"target={target}"), []
    for count in (8, most):
        spoken = [speaker.speak(" ".join(words[:count]), voice, seed=seed) for seed in (1, 2, 3)]
        assert all(speech.outcome.stopped for speech in spoken)
        seconds.append(sum(len(speech.wave) / speech.sample_rate for speech in spoken) / count)
    return seconds[1] / seconds[0]


def test_a_word_takes_as_long_in_a_text_of_any_length_that_was_trained_on() -> None:
    """The control: the small target, trained on 8 words, runs on in 16."""
    (_, most), words = SENTENCES.trained_words, LONG.split()
    assert len(words) >= most
    assert stretch("sentences", words, most) == pytest.approx(1, abs=0.25)
    few = ["alpha", "seven", "bravo", "kilo", "nine", "two", "golf", "lima"] * 2
    assert stretch("tiny", few, 16, "rms_f114_p112") > 1.25
