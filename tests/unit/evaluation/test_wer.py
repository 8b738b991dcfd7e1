import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pocketsphinx import Config, Decoder

from speculative_tts import assets
from speculative_tts.evaluation.audio import load_wave
from speculative_tts.evaluation.judges.pocketsphinx import (
    TINY_WORDS,
    Pocketsphinx,
    choose_grammar,
    dictionary,
    edit_columns,
    load_recogniser,
    recogniser,
    word_decoder,
)
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.wer import compare, normalise
from speculative_tts.records import read_list


def test_vocabulary_is_in_the_dictionary() -> None:
    assert len(TINY_WORDS) == 35
    assert set(TINY_WORDS) <= dictionary()


def test_normalise() -> None:
    assert normalise('"Boys," she can\N{RIGHT SINGLE QUOTATION MARK}t; twenty-five\n') == (
        "boys she can't twenty five"
    )


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Élan, naïve señor Ångström", "elan naive senor angstrom"),
        ("Straße, Łódź, Æsop, Þor, smørrebrød", "strasse lodz aesop thor smorrebrod"),
        ("\N{LATIN SMALL LIGATURE FI}ne \N{FULLWIDTH LATIN CAPITAL LETTER A}", "fine a"),
        ("cafe\N{COMBINING ACUTE ACCENT}", "cafe"),
        ("can\N{MODIFIER LETTER APOSTROPHE}t", "can't"),
        ("can\N{ACUTE ACCENT}t, o\N{PRIME}clock", "can't o'clock"),
        (
            "'Hello there,' \N{LEFT SINGLE QUOTATION MARK}hi\N{RIGHT SINGLE QUOTATION MARK}",
            "hello there hi",
        ),
        ("co\N{SOFT HYPHEN}operate, zero\N{ZERO WIDTH SPACE}width", "cooperate zerowidth"),
        ("Acme\N{TRADE MARK SIGN} alpha\N{GRINNING FACE}bravo", "acme alpha bravo"),
        ("'' '", ""),
    ],
)
def test_accents_are_folded(text: str, plain: str) -> None:
    """An accented letter became a blank, so that "álpha" cost its word and another.

    So did a soft hyphen; a quoted word, and one with a trade mark, cost an edit.
    """
    assert normalise(text) == plain


@given(st.text(st.characters(codec="ascii")))
def test_plain_texts_are_what_they_were(text: str) -> None:
    """Shipped tables are of plain words, which the normaliser treats as it did before accents.

    Only apostrophes at a word's edge, quotation marks, are left out since.
    """
    plain = re.sub(r"[^a-z0-9']", " ", text.lower()).split()
    assert normalise(text).split() == [word for one in plain if (word := one.strip("'"))]


def test_texts_of_shipped_tables_are_plain() -> None:
    texts = [item.text for item in read_list(assets.resolve("tiny:testset/list.jsonl"))]
    assert texts
    assert all(text.isascii() and "'" not in text for text in texts)


def test_what_a_normaliser_cannot_compare_is_flagged() -> None:
    """A digit where the recogniser writes letters cost an edit, another script's words none."""
    assert compare("alpha 7", "alpha seven")["flags"] == ["numerals"]
    assert compare("alpha 7", "alpha 7", one_numeral=True)["flags"] == []
    assert compare("seven", "7")["flags"] == ["numerals"]
    assert compare("rock & roll", "rock and roll")["flags"] == ["signs"]
    assert compare("can\N{MODIFIER LETTER APOSTROPHE}t", "can't")["flags"] == []
    assert compare("alpha 你好 bravo", "alpha bravo")["flags"] == ["other_script"]
    assert compare("alpha brávo", "alpha bravo")["flags"] == []
    assert compare("你好", "你好", str)["flags"] == []  # of a normaliser that keeps them


@pytest.mark.parametrize(
    ("text", "heard", "grammar", "expected"),
    [
        (
            "Alpha bravo, golf one",
            "alpha golf golf one two",
            "words",
            {"words": 4, "hits": 3, "substitutions": 1, "deletions": 0, "insertions": 1}
            | {"characters": len("alpha bravo golf one"), "unknown_words": 0, "flags": []},
        ),
        (
            "alpha bravo",
            "",
            "words",
            {"deletions": 2, "character_deletions": 11, "flags": ["empty_hypothesis"]},
        ),
        (
            "...",
            "alpha bravo",
            "words",
            {"words": 0, "insertions": 2, "hits": 0, "flags": ["empty_text"]},
        ),
        ("alpha qxzwv", "alpha", "general", {"unknown_words": 1}),
    ],
)
def test_edit_counts(text: str, heard: str, grammar: str, expected: dict[str, object]) -> None:
    columns = edit_columns(text, heard, grammar)
    assert {name: columns[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("column", "text", "heard", "lost"),
    [
        ("first_word_lost", "zero alpha", "zero alpha", 0),
        ("first_word_lost", "zero alpha", "zero golf", 0),
        ("first_word_lost", "zero alpha", "five zero alpha", 0),
        ("first_word_lost", "zero alpha", "sierra alpha", 1),
        ("first_word_lost", "zero alpha", "alpha", 1),
        ("first_word_lost", "zero alpha", "", 1),
        ("first_word_lost", "", "alpha", None),
        ("last_words_lost", "zero alpha bravo", "zero alpha bravo", 0),
        ("last_words_lost", "zero alpha bravo", "zero alpha", 1),
        ("last_words_lost", "zero alpha bravo", "zero", 2),
        ("last_words_lost", "zero alpha bravo", "", 3),
        ("last_words_lost", "zero alpha bravo", "zero bravo", 0),
        ("last_words_lost", "zero alpha bravo", "zero alpha golf", 0),
        ("last_words_lost", "zero alpha bravo", "zero alpha bravo golf", 0),
    ],
)
def test_words_lost_at_the_ends(column: str, text: str, heard: str, lost: int | None) -> None:
    assert edit_columns(text, heard, "words").get(column) == lost


@pytest.mark.parametrize(
    ("lost", "stop", "early"),
    [(0, "stop_id", 0.0), (2, "stop_id", 1.0), (2, "max_length", None), (1, None, 1.0)],
)
def test_an_utterance_cut_at_the_limit_is_no_early_stop(
    lost: int, stop: str | None, early: float | None
) -> None:
    row = ScoreRow("a", "", "", columns={"last_words_lost": lost, "stop": stop})
    assert METRICS["stopped_early"].columns(row)[0] == early


def test_grammar_choice() -> None:
    assert choose_grammar("auto", ["Alpha, nine."], TINY_WORDS) == "words"
    assert choose_grammar("auto", ["alpha", "hello"], TINY_WORDS) == "general"
    assert choose_grammar("general", ["alpha"], TINY_WORDS) == "general"
    with pytest.raises(ValueError, match="grammar=fancy is unknown; use auto, words or general"):
        choose_grammar("fancy", [], TINY_WORDS)


def test_open_text_is_labelled() -> None:
    assert Pocketsphinx("general").id == "pocketsphinx-general"
    assert "general language model" in Pocketsphinx("general").options["label"]
    assert "words" not in Pocketsphinx("general").options


def test_unpronounceable_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="qxzwv not in pocketsphinx's dictionary"):
        load_recogniser("words", ("alpha", "qxzwv"))


def test_word_grammar_hears_what_was_said_whatever_was_heard_before(
    speech: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The recogniser's front end kept state: 2 of 24 transcripts changed with the order."""
    recognise = load_recogniser("words", TINY_WORDS)
    slt = load_wave(speech / "slt_kilo_seven_india.flac")
    rms = load_wave(speech / "rms_zulu_four_tango_nine.flac")
    first = recognise(slt)
    assert first == "kilo seven india"
    assert recognise(rms) == "zulu four tango nine"
    for before in (rms, np.zeros(16_000, np.float32), rms[:5000]):
        recognise(before)
        assert recognise(slt) == first
    assert recognise(np.zeros(8000, np.float32)) == ""
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def jsgf() -> Decoder:
    """The word grammar as pocketsphinx makes it of JSGF."""
    decoder = Decoder(Config(lm=None, loglevel="FATAL", cmn="batch"))
    rule = f"public <sentence> = ( {' | '.join(TINY_WORDS)} )+;"
    decoder.add_jsgf_string("words", f"#JSGF V1.0;\ngrammar words;\n{rule}\n")
    decoder.activate_search("words")
    return decoder


@pytest.mark.parametrize("rows", [slice(0, 240, 40), slice(198, 199)])
def test_word_loop_hears_what_jsgf_does(rows: slice, jsgf: Decoder) -> None:
    """With one state for all words, `two one` of the one row became `kilo`."""
    items = read_list(assets.resolve("tiny:testset/list.jsonl"))[rows]
    loop, as_jsgf = (recogniser(decoder) for decoder in (word_decoder(TINY_WORDS), jsgf))
    for item in items:
        wave = load_wave(Path(item.reference_audio or ""))
        assert loop(wave) == as_jsgf(wave) != ""


def test_general_model_hears_real_speech(speech: Path) -> None:
    wave = load_wave(speech / "237_134493_000015_000004.flac")
    heard = load_recogniser("general", ())(wave)
    columns = edit_columns(
        "I get wet to my knees when I go down to pick cherries.", heard, "general"
    )
    assert columns["hits"] >= 9
