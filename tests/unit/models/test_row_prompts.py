"""Prompts by a speaker's name, by global codes, with the voice's turn first; rows of frames."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from speculative_tts.commands import decode
from speculative_tts.models.families.code_tokens import find_codes
from speculative_tts.models.families.registry import load_layout
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.slots import Slots
from speculative_tts.schema.common import CheckpointConfig, RowsConfig

GOLDEN = Path(__file__).parents[2] / "golden" / "rows"
LLASA = Path(__file__).parents[2] / "golden" / "llasa" / "model_1b_style"
NAMES = {f"<custom_token_{number}>": 40 + number for number in range(10 + 21)}
FRAMES = RowsConfig(code="<custom_token_{}>", first=10, slots=7)


def layout(name: str, **rows: object) -> RowLayout:
    """The shipped configuration on its golden model."""
    target = decode.main.compose([f"target={name}"]).target
    folder = GOLDEN / ("spark" if name == "spark" else "orpheus") / "model"
    count = 96 if name == "spark" else 112
    config = replace(target.rows, **({"count": count} | rows))
    return RowLayout.read(folder, config)


def said(where: RowLayout, prompt: Prompt) -> str:
    """The prompt's rows as text."""
    return str(where.prompts.tokenizer.decode(where.prompt_ids(prompt)))


def test_codes_come_in_frames_of_equal_shares(tmp_path: Path) -> None:
    codes, slots = find_codes(NAMES, FRAMES, tmp_path)
    assert codes.tolist() == list(range(50, 71))
    assert slots == Slots((3,) * 7)
    with pytest.raises(
        ValueError, match=r"20 codes, which rows\.slots=7 does not divide; give the"
    ):
        find_codes(NAMES, replace(FRAMES, count=20), tmp_path)


def test_each_position_may_have_a_pattern_of_its_own(tmp_path: Path) -> None:
    names = {f"<a_{n}>": n for n in range(4)} | {f"<b_{n}>": 9 - n for n in range(3)}
    rows = RowsConfig(code="<a_{}>", more=["<b_{}>"], end_in_frame=True)
    codes, slots = find_codes(names, rows, tmp_path)
    assert codes.tolist() == [0, 1, 2, 3, 9, 8, 7]
    assert slots == Slots((4, 3), end_in_frame=True)
    with pytest.raises(ValueError, match=r"rows\.slots 2 and rows\.more are both given"):
        find_codes(names, replace(rows, slots=2), tmp_path)
    with pytest.raises(ValueError, match=r"two codes of .* have one row"):
        find_codes(names, replace(rows, more=["<a_{}>"]), tmp_path)


def test_codes_without_names_are_counted_from_a_row(tmp_path: Path) -> None:
    rows = RowsConfig(offset=30, count=6, slots=2)
    assert find_codes({"a": 0}, rows, tmp_path)[0].tolist() == list(range(30, 36))
    with pytest.raises(ValueError, match=r"give their number too, target\.rows\.count"):
        find_codes({"a": 0}, replace(rows, count=None), tmp_path)


def test_a_row_that_the_head_lacks_is_named() -> None:
    rows = RowsConfig(offset=590, count=20)
    with pytest.raises(ValueError, match=r"has token 609, config\.json 600 rows"):
        RowLayout.read(LLASA, rows)


@pytest.mark.parametrize(
    "tokens",
    [["<|c1_0|>", "<|c2_0|>", "<|word_start|>"], ["<|0|>", "<|text_sep|>", "<|audio_start|>"]],
)
def test_a_family_that_says_words_between_its_codes_is_refused_by_name(
    tokens: list[str], tmp_path: Path
) -> None:
    """OuteTTS: no position tells whether a word, a duration or a code comes next."""
    from transformers import AutoTokenizer

    shutil.copytree(LLASA, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(LLASA)
    tokenizer.add_tokens(tokens)
    tokenizer.save_pretrained(tmp_path / "model")
    checkpoint = CheckpointConfig(name="x", path=str(tmp_path / "model"))
    with pytest.raises(ValueError, match=r"is OuteTTS .*, which says each word, its length and"):
        load_layout(checkpoint)


def test_a_speaker_is_named() -> None:
    """By the row of a list, by the configuration for all, or the first that the model knows."""
    where = layout("orpheus")
    assert "tara: Stay." in said(where, Prompt("Stay."))
    assert "leo: Stay." in said(where, Prompt("Stay.", speaker="leo"))
    assert "zoe: Stay." in said(layout("orpheus", speaker="zoe"), Prompt("Stay.", speaker="leo"))
    with pytest.raises(ValueError, match=r"speaker 'slt' is not known .*: one of tara, leah, jess"):
        where.prompt_ids(Prompt("Stay.", speaker="slt"))
    described = layout("maya1")
    assert '<description="A calm voice."> Stay.' in said(
        described, Prompt("Stay.", speaker="A calm voice.")
    )
    with pytest.raises(
        ValueError, match=r"speaker '' is not known .*: words that describe a voice"
    ):
        described.prompt_ids(Prompt("Stay."))
    with pytest.raises(ValueError, match="the text holds the control token <custom_token_2>"):
        described.prompt_ids(Prompt("Stay.", speaker="A<custom_token_2>"))


def test_what_a_text_holds_fills_no_place() -> None:
    where = layout("orpheus")
    assert "tara: Say {speaker} and {text}." in said(where, Prompt("Say {speaker} and {text}."))


def test_a_model_that_is_told_a_name_follows_no_recording() -> None:
    assert not layout("orpheus").follows_voice
    assert layout("spark").follows_voice
    assert layout("orpheus", voice_turn="{prompt_text}{codes}").follows_voice


def test_other_tokens_end_the_speech_too() -> None:
    where = layout("veena")
    assert where.speech_vocab_size == 114
    assert where.stop_ids == (112, 113)
    first = where.prompts.tokenizer.convert_tokens_to_ids("<custom_token_0>")
    assert where.order(text_rows=False)[-2:].tolist() == [first + 2, first + 6]
    assert where.end == first + 2


def test_a_voice_is_its_global_codes() -> None:
    where, codes = layout("spark"), tuple(range(32))
    written = said(where, Prompt("Stay.", voice_codes=codes))
    assert written.endswith("<|bicodec_global_31|><|end_global_token|><|start_semantic_token|>")
    voice = torch.tensor([3, 1])
    alone = Prompt("Stay.", voice=voice, voice_codes=codes)
    assert said(where, alone) == written  # a voice without its words is not continued
    told = said(where, replace(alone, voice_text="Go."))
    assert "<|start_content|>Go.Stay.<|end_content|>" in told
    assert told.endswith("<|bicodec_semantic_3|><|bicodec_semantic_1|>")
    with pytest.raises(ValueError, match="0 global codes of a voice, the target reads 32; give"):
        where.prompt_ids(Prompt("Stay."))
    with pytest.raises(ValueError, match="voice_codes has 64, the target's are 0 to 63"):
        where.prompt_ids(Prompt("Stay.", voice_codes=(*range(31), 64)))
    with pytest.raises(ValueError, match=r"give the token of its codes, target\.rows\.voice"):
        layout("spark", voice=None)


def test_a_voice_prompt_may_be_a_turn_of_its_own() -> None:
    """Text and codes of the voice come first, as they do for Orpheus' pretrained model."""
    turn = (
        "<custom_token_3>{prompt_text}<|eot_id|><custom_token_4>"
        "<custom_token_5><custom_token_1>{codes}<custom_token_2>"
    )
    user = "<custom_token_3>{text}<|eot_id|><custom_token_4>"
    where = layout("orpheus", voice_turn=turn, user=user)
    voice = torch.tensor([1, 17, 33, 49, 65, 81, 97])
    written = said(where, Prompt("Stay.", "Go.", voice))
    assert written == (
        "<custom_token_3>Go.<|eot_id|><custom_token_4><custom_token_5><custom_token_1>"
        + "".join(f"<custom_token_{10 + code}>" for code in voice.tolist())
        + "<custom_token_2><custom_token_3>Stay.<|eot_id|><custom_token_4>"
        "<custom_token_5><custom_token_1>"
    )
    assert said(where, Prompt("Stay.")) == written.partition("<custom_token_2>")[2]
    with pytest.raises(ValueError, match="has 3 codes, which is no whole number of frames of 7"):
        where.prompt_ids(Prompt("Stay.", "Go.", voice[:3]))
    with pytest.raises(ValueError, match=r"rows\.voice_turn 'x' has no \{codes\}"):
        layout("orpheus", voice_turn="x")


def test_an_end_may_open_a_prompt_but_no_speech() -> None:
    """Soprano's prompts begin with the token that ends its speech."""
    where = layout("orpheus", user="<custom_token_2>{text}", speakers=[])
    assert said(where, Prompt("Stay.")).startswith("<custom_token_2>Stay.")
    with pytest.raises(ValueError, match="ends the speech and is in the prompt too"):
        layout("orpheus", assistant="<custom_token_2>")


def test_speech_may_have_a_limit_of_its_own() -> None:
    where = layout("orpheus", max_length=300, max_tokens=50)
    assert where.limits("some words", 20, 0, 300) == (0, 50)
    assert where.limits("some words", 280, 0, 300) == (0, 20)


def test_a_draft_has_the_targets_frames() -> None:
    assert layout("orpheus").shared != layout("orpheus", slots=1).shared


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("spark", {"voice": "<|bicodec_semantic_{}|>"}, r"a token of the prompt .* is also code 0"),
        ("spark", {"end": "<|bicodec_global_2|>"}, r"ends the speech and is in the prompt too"),
        ("spark", {"voice": "<|none_{}|>"}, r"no token of .* looks like <\|none_\{\}\|>"),
        ("orpheus", {"user": "Say it."}, r"has no place for the text; put \{text\} in"),
        (
            "orpheus",
            {"offset": 3, "count": 7},
            r"rows\.offset 3 makes row 3 a code, which the tokenizer has as",
        ),
    ],
)
def test_a_layout_whose_tokens_have_two_meanings_is_refused(
    name: str, rows: dict[str, object], message: str
) -> None:
    """Each decoded in silence: a voice of codes, a prompt without the text, codes that are text."""
    with pytest.raises(ValueError, match=message):
        layout(name, **rows)


def test_a_system_message_holds_no_code() -> None:
    """Only the parts of user and assistant were looked at."""
    with pytest.raises(ValueError, match=r"a token of the prompt \(row \d+\) is also code 4"):
        RowLayout.read(LLASA, RowsConfig(system="Be brief.<|s_4|>"))
