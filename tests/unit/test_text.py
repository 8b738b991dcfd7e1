"""English text as words, words as phones."""

import pytest

from speculative_tts.text.lexicon import word_phones
from speculative_tts.text.normalise import normalise
from speculative_tts.text.phones import MARKS, PHONES, spoken_phones


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Dr. Smith paid $3.50.", "doctor Smith paid three dollars and fifty cents."),
        ("on 12 May 1998", "on may twelfth, nineteen ninety eight"),
        ("the 21st of June", "the twenty first of june"),
        ("at 10:05 p.m. sharp", "at ten oh five P M sharp"),
        ("it is 7:00", "it is seven o'clock"),
        ("1,234.5 people", "one thousand two hundred thirty four point five people"),
        ("in 2005 and 1900", "in two thousand five and nineteen hundred"),
        ("the 1990s", "the nineteen nineties"),
        ("£1.5 million", "one point five million pounds"),
        ("$0.01", "one cent"),
        ("50% of 5 km", "fifty percent of five kilometers"),
        ("a naïve café, Straße", "a naive cafe, Strasse"),
        ("No. 7; no. That ends it.", "number seven, no. That ends it."),
        ("the U.N. and NASA", "the U N and NASA"),
        ("well-known -- really?", "well known, really?"),
        ("007 called", "zero zero seven called"),
        ("'Go!' (she said)", "Go! she said"),
        ("pages 3-5", "pages three to five"),
        ("...and so on", "and so on"),
    ],
)
def test_signs_become_words(text: str, words: str) -> None:
    assert normalise(text) == words


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("你好", "cjk unified ideograph-4f60"),
        ("hi 😀", "grinning face"),
        ("привет", "cyrillic small letter pe"),
        ("", "the text is empty"),
        (" ... ", "the text is empty"),
    ],
)
def test_what_cannot_be_spoken_is_named(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        spoken_phones(text)


@pytest.mark.parametrize(
    ("text", "phones"),
    [
        ("Hello, the apple!", "hh ax l ow , dh iy ae p ax l !"),
        ("the dog", "dh ax d ao g ."),
        ("NASA?", "n ae s ax ?"),
        ("BBC", "b iy b iy s iy ."),
        ("churches", "ch er ch ih z ."),
    ],
)
def test_words_are_said_as_in_running_speech(text: str, phones: str) -> None:
    assert " ".join(spoken_phones(text)) == phones


def test_unknown_words_are_said_by_their_letters() -> None:
    said = word_phones("blorptastic")
    assert said[:2] == ("b", "l")
    assert "t" in said
    assert set(said) <= set(PHONES) - set(MARKS)
    assert set(word_phones("ooooo")) <= set(PHONES)


def test_phones_may_be_given() -> None:
    assert spoken_phones("<hh ax l ow , w er l d ?>")[-1] == "?"
    assert spoken_phones("<hh ay>") == ["hh", "ay", "."]
    with pytest.raises(ValueError, match="'qq' is no phone"):
        spoken_phones("<hh qq>")
    with pytest.raises(ValueError, match="no phones to speak"):
        spoken_phones("<. ,>")
