"""The target that speaks any English ships and works: golden codes, an end, words heard."""

import json
from pathlib import Path

import numpy as np
import pytest

from speculative_tts.api import Speaker
from speculative_tts.assets import resolve
from speculative_tts.commands import speak
from speculative_tts.evaluation.judges.faster_whisper import FasterWhisper
from speculative_tts.evaluation.wer import word_edits
from speculative_tts.models.phones import PhoneLayout, read_layout

SENTENCE = "The weather is fine today."
# the likeliest codes, by float32; they depend on the front end, the layout, weights and voice
GOLDEN = [5288, 7714, 6724, 5650, 7793, 6354, 1386, 1329, 7167, 2774, 5198, 6068]


def test_it_says_a_sentence_by_its_text() -> None:
    greedy = Speaker("target=sentences", "sampling.temperature=0", "runtime.dtype=float32")
    said = greedy.speak(SENTENCE, prompt="slt", system="target")
    assert said.tokens[: len(GOLDEN)] == GOLDEN
    assert said.outcome.stopped
    assert len(said.wave) == pytest.approx(1.5 * said.sample_rate, rel=0.3)
    assert greedy.speak("Nobody saw him there.", prompt="slt").tokens[:12] != GOLDEN


def test_its_recurrent_layer_drafts() -> None:
    """Its drafts are accepted now and then; a layer of another target is refused."""
    drafted = Speaker("target=sentences", "drafter=recurrent", "lookahead=1")
    said = drafted.speak(SENTENCE, prompt="slt")
    assert said.outcome.stopped
    assert said.acceptance_length > 1.15


def test_numbers_and_phones_are_spoken_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, text in enumerate(("Dr. Lee paid $3.50.", "<hh ax l ow w er l d .>")):
        out = tmp_path / f"{number}.wav"
        given = [f"text='{text}'", "runtime.warmup=0", f"out={out}"]
        assert speak.main([*given, "target=sentences"]) == 0
        assert out.stat().st_size > 16_000
    assert speak.main(["text=\u043f\u0440\u0438", f"out={tmp_path / 'x.wav'}"]) == 2
    assert "cyrillic small letter pe" in capsys.readouterr().err
    assert not (tmp_path / "x.wav").exists()


def test_the_lengths_it_learnt_are_stated_and_others_are_told() -> None:
    layout = read_layout(resolve("tiny:target_sentences"))
    assert isinstance(layout, PhoneLayout)
    assert layout.trained_words == (3, 30)
    assert layout.outside_training(SENTENCE) is None
    assert layout.outside_training("Hello") is not None
    assert layout.outside_training("word " * 31) is not None


def test_its_list_has_240_sentences_of_6_to_14_words_in_three_voices() -> None:
    path = resolve("tiny:testset_sentences/list.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({row["text"] for row in rows}) == 240
    assert {len(row["text"].split()) for row in rows} <= set(range(6, 15))
    assert all((path.parent / row["prompt_audio"]).is_file() for row in rows)
    assert {row["speaker"] for row in rows} == {"slt", "rms", "awb"}


@pytest.mark.skipif(FasterWhisper().missing() is not None, reason="no weights of Whisper here")
def test_its_words_are_heard_by_whisper() -> None:
    """Four plain sentences of a fixed seed; a target that ignores its text errs on nearly all."""
    texts = (
        "The old man walked slowly down the street.",
        "She put the book on the table and left.",
        "We will meet again after the summer.",
        "He could not find the house in the dark.",
    )
    speaker, judge = Speaker("target=sentences"), FasterWhisper()
    hear, normalise = judge.load(), judge.normaliser()
    errors = words = 0
    for text in texts:
        wave = np.asarray(speaker.speak(text, system="target").wave, np.float32)
        edits = word_edits(normalise(text), normalise(hear(wave)))
        errors += edits["substitutions"] + edits["deletions"] + edits["insertions"]
        words += edits["words"]
    assert errors <= 0.4 * words
