"""Sentences to speak: read from texts, held out, spoken with exact phone times, put into lists."""

import json
import runpy
import struct
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from speculative_tts.assets import resolve
from speculative_tts.codecs import world
from speculative_tts.records import read_list
from speculative_tts_makers.corpora import sentence_lists
from speculative_tts_makers.corpora.flite import PAUSE, SpokenText
from speculative_tts_makers.corpora.sentences import (
    AFTER,
    BEFORE,
    SpokenSentence,
    mark_pauses,
    read_shard,
    write_shard,
)
from speculative_tts_makers.corpora.texts import cleaned, held_out, sentences, split, text_key


def test_wordnets_examples_are_read(tmp_path: Path) -> None:
    for name in ("data.noun", "data.verb", "data.adj", "data.adv"):
        (tmp_path / name).write_text("")
    gloss = '00001 n | that which is; "it was full of rackets, balls and odd"; "a dog"\n'
    (tmp_path / "data.noun").write_text(f"  1 a licence\n{gloss}")
    assert sentences([tmp_path]) == ["It was full of rackets, balls and odd."]


def test_a_sword_text_is_read_without_notes_and_tags(tmp_path: Path) -> None:
    verses = (
        "<title>Of a title</title><p>He went out<note>or in</note>.</p> <w>They</w> all slept "
        "&amp; woke. Why did he go?"
    )
    blocks = [zlib.compress(part.encode()) for part in (verses[:50], verses[50:])]
    entries, at = b"", 0
    for block in blocks:
        entries += struct.pack("<III", at, len(block), 0)
        at += len(block)
    (tmp_path / "ot.bzs").write_bytes(entries)
    (tmp_path / "ot.bzz").write_bytes(b"".join(blocks))
    assert sentences([tmp_path]) == ["He went out.", "Why did he go?"]


def test_texts_of_one_key_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("He is here now. he is here now! She is not here.")
    assert [text_key(text) for text in sentences([tmp_path])] == [
        "he is here now",
        "she is not here",
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no sentences of 3 to 30 words"):
        sentences([tmp_path / "empty"])


@pytest.mark.parametrize(
    ("text", "usable"),
    [
        ("he said (loudly): go home", "He said, go home."),
        ("is it well-known?!", "Is it well known?"),
        ("two words", None),
        ("it costs 5 now", None),
        ("the NASA people came", None),
        ("caf\u00e9 food is good", None),
    ],
)
def test_sentences_are_letters_and_marks(text: str, usable: str | None) -> None:
    assert cleaned(text) == usable


def test_a_titles_full_stop_ends_no_sentence() -> None:
    assert list(split('Mr. Smith came. "He sat," said J. Doe.')) == [
        "Mr. Smith came.",
        '"He sat," said J. Doe.',
    ]


def test_one_sentence_of_forty_is_held_out_whatever_its_marks_are() -> None:
    """Of 4,000 sentences 100 +- 40 are: a fair hash fails one time in 10,000, and it is fixed."""
    texts = [f"Sentence {chr(97 + n % 26)} {n // 26 * 'a'}b here" for n in range(4000)]
    assert 60 <= sum(map(held_out, texts)) <= 140
    assert all(held_out(text) == held_out(f"{text.lower()}!") for text in texts[:400])


def test_pauses_become_marks_and_silence_is_cut() -> None:
    spoken = SpokenText(
        np.zeros(16_000, np.float32),
        (PAUSE, "hh", "ay", PAUSE, "y", "uw", PAUSE),
        (0.3, 0.4, 0.5, 0.7, 0.8, 0.9, 1.4),
    )
    phones, ends, start, stop = mark_pauses(spoken, "Hi, you?")
    assert phones == ("hh", "ay", ",", "y", "uw", "?")
    assert ends == (0.4, 0.5, 0.7, 0.8, 0.9, stop)
    assert (start, stop) == (pytest.approx(0.3 - BEFORE), pytest.approx(0.9 + AFTER))
    silent = SpokenText(spoken.wave, (PAUSE,), (1.0,))
    with pytest.raises(ValueError, match="nothing is spoken"):
        mark_pauses(silent, "Hm.")


def test_a_shard_comes_back_as_it_was_spoken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)

    def speak(text: str, voice: str) -> SpokenSentence:
        features = rng.normal(size=(8, 27)).astype(np.float16)
        return SpokenSentence(voice, text, ("hh", "ay", "."), (2, 5, 8), features)

    made: list[SpokenSentence] = []
    monkeypatch.setattr(
        "speculative_tts_makers.corpora.sentences.speak_sentence",
        lambda text, voice: made.append(speak(text, voice)) or made[-1],
    )
    write_shard((["Hi there you.", "And you too."], "slt", tmp_path / "train-slt-0000.npz"))
    read = read_shard(tmp_path / "train-slt-0000.npz")
    assert [(one.text, one.voice, one.phones, one.ends) for one in read] == [
        (one.text, one.voice, one.phones, one.ends) for one in made
    ]
    assert all(np.array_equal(a.features, b.features) for a, b in zip(read, made, strict=True))


def test_lists_share_no_sentence_and_have_the_voices_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wave = np.zeros(world.SAMPLE_RATE, np.float32)
    spoken = SpokenText(wave, (PAUSE, "hh", "ay", PAUSE), (0.2, 0.5, 0.8, 1.0))
    monkeypatch.setattr(sentence_lists, "speak_text", lambda *_: spoken)
    monkeypatch.setattr(sentence_lists, "ROWS", {"test": 4, "dev": 2})
    texts = [f"The {'a' * n}b was here again today." for n in range(2000)]
    with pytest.raises(ValueError, match="the lists need 20; give more texts or fewer voices"):
        sentence_lists.write_sentence_lists(texts[:100], ["slt", "rms"], 1, tmp_path / "few")
    paths = sentence_lists.write_sentence_lists(texts, ["slt", "rms"], 1, tmp_path)
    rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    assert [row["speaker"] for row in rows] == ["slt", "rms"] * 6
    said = [row["text"] for row in rows]
    assert len(set(said) | {row["prompt_text"] for row in rows}) == 12 + 8
    assert all(map(held_out, said))
    frames = soundfile.info(tmp_path / "test" / rows[0]["prompt_audio"]).frames
    assert frames == round((0.6 + BEFORE + AFTER) * world.SAMPLE_RATE)


def test_the_shipped_list_gets_recordings_by_its_own_voices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken: list[tuple[str, str]] = []

    def speak(text: str, voice: str) -> SpokenText:
        spoken.append((text, voice))
        wave = np.zeros(world.SAMPLE_RATE, np.float32)
        return SpokenText(wave, (PAUSE, "hh", "ay", PAUSE), (0.2, 0.5, 0.8, 1.0))

    monkeypatch.setattr(sentence_lists, "speak_text", speak)
    script = Path(__file__).parents[3] / "scripts" / "speak_list.py"
    monkeypatch.setattr("sys.argv", [str(script), str(tmp_path)])
    runpy.run_path(str(script), run_name="__main__")
    shipped = read_list(resolve("tiny:testset_sentences/list.jsonl"))
    made = read_list(tmp_path / "list.jsonl")
    assert [one.text for one in made] == [one.text for one in shipped]
    assert spoken == [(one.text, one.speaker) for one in made]
    for one, of in zip(made, shipped, strict=True):
        assert Path(one.reference_audio or "").is_file()
        assert Path(one.prompt_audio).read_bytes() == Path(of.prompt_audio).read_bytes()


def test_spare_sentences_are_in_no_list_and_of_the_texts_that_ship(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"The {'a' * n}b was here again today." for n in range(2000)]
    monkeypatch.setattr(sentence_lists, "ROWS", {"test": 4, "dev": 2})
    lists, spare = sentence_lists.plan_lists(texts, ["slt", "rms"], 1)
    rows = [row for rows in lists.values() for row in rows]
    taken = {row.text for row in rows} | {row.prompt_text for row in rows}
    assert len(taken) == 12 + 8
    assert not taken & {*spare}
    assert taken | {*spare} == {text for text in texts if held_out(text)}
    (tmp_path / "other.txt").write_text(" ".join(texts))
    script = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "spare_sentences.py"))
    monkeypatch.setattr(script["CONFIG"], "texts", [str(tmp_path)])
    with pytest.raises(ValueError, match="another test list than the one that ships"):
        script["spare_rows"](tmp_path)


def test_the_spare_list_has_other_sentences_than_the_shipped_one() -> None:
    here = Path(__file__).parents[3] / "results/sentences/lists/spare.jsonl"
    spare = read_list(here)
    shipped = read_list(resolve("tiny:testset_sentences/list.jsonl"))
    assert Counter(one.speaker for one in spare) == {"slt": 75, "rms": 75, "awb": 75}
    said = {text_key(one.text) for one in spare}
    assert len(said) == len(spare)
    assert all(map(held_out, said))
    assert not said & {text_key(text) for one in shipped for text in (one.text, one.prompt_text)}
    assert {one.prompt_text for one in spare} == {one.prompt_text for one in shipped}
