"""LMs whose codes are vocabulary rows, on the golden checkpoints: ids, prompts, heads, mistakes."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.decoder.loading import state_matrices
from speculative_tts.models.families.code_rows import RowLM
from speculative_tts.models.families.code_tokens import find_codes
from speculative_tts.models.families.registry import (
    code_embedding,
    family_of,
    load_layout,
    load_speech_lm,
)
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig, RowsConfig

pytestmark = pytest.mark.usefixtures("kernels")

GOLDEN = Path(__file__).parents[2] / "golden" / "llasa"
CPU = torch.device("cpu")
TEXT = "Please read it again, softly."
SPOKEN = Prompt(TEXT, voice=torch.arange(5))


def checkpoint(style: str, **rows: object) -> CheckpointConfig:
    settings = RowsConfig(**rows)  # type: ignore[arg-type]
    return CheckpointConfig(name=style, path=str(GOLDEN / f"model_{style}_style"), rows=settings)


def load(style: str, *, text_rows: bool) -> RowLM:
    model = load_speech_lm(checkpoint(style), dtype=torch.float32, device=CPU, text_rows=text_rows)
    assert isinstance(model, RowLM)
    return model


def copied(tmp_path: Path, style: str = "1b") -> Path:
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / f"model_{style}_style", folder)
    return folder


def at(folder: Path, **rows: object) -> CheckpointConfig:
    return replace(checkpoint("1b", **rows), path=str(folder))


def test_a_cut_head_gives_the_whole_ones_logits_of_speech_rows() -> None:
    whole, cut = load("8b", text_rows=True), load("8b", text_rows=False)
    assert whole.vocab_size == 600
    assert cut.vocab_size == cut.layout.speech_vocab_size == 257
    prompt = whole.prompt(whole.prompt_ids(SPOKEN))
    torch.testing.assert_close(prompt, cut.prompt(cut.prompt_ids(SPOKEN)))
    all_, speech = (m.prefill([prompt], m.cache(1, 300)) for m in (whole, cut))
    torch.testing.assert_close(all_[:, :257], speech, rtol=0, atol=1e-5)
    order = whole.layout.order(text_rows=True)
    assert sorted(order.tolist()) == list(range(600))


def test_a_model_of_the_same_codes_drafts_whatever_its_width() -> None:
    target, draft = load("8b", text_rows=False), load("3b", text_rows=False)
    assert target.layout.shared == draft.layout.shared
    assert target.layout.vocabulary == draft.layout.vocabulary


def test_text_rows_that_are_emitted_are_fed_back_and_are_no_codes() -> None:
    model = load("1b", text_rows=True)
    prompt = model.prompt(model.prompt_ids(SPOKEN))
    request = Request("x", prompt, None, 0, 60, 3)
    (outcome,) = autoregressive(model, (), Sampler(3.0), [request])
    others = [token for token in outcome.tokens if token >= model.layout.speech_vocab_size]
    assert others
    rows = model.layout.order(text_rows=True)[torch.tensor(others)]
    torch.testing.assert_close(model.embed(torch.tensor(others)), model.prompt(rows.tolist()))


def test_the_prompt_follows_its_date_and_joins_texts_by_the_separator() -> None:
    layout = RowLayout.read(
        GOLDEN / "model_1b_style", RowsConfig(date="01 Jan 2030", separator=" ")
    )
    written = layout.written("B.", "A.")
    assert "Today Date: 01 Jan 2030" in written
    assert "<|TEXT_UNDERSTANDING_START|>A. B.<|TEXT_UNDERSTANDING_END|>" in written
    assert written.endswith("<|SPEECH_GENERATION_START|>")


def test_a_plain_prompt_by_configuration_only() -> None:
    rows = RowsConfig(chat=False, user="say: {text}\nnow:", end="<|SPEECH_UNDERSTANDING_END|>")
    layout = RowLayout.read(GOLDEN / "model_1b_style", rows)
    assert layout.written("Hello") == "say: Hello\nnow:<|SPEECH_GENERATION_START|>"
    assert layout.end == 343


def test_a_prompt_asks_the_tokenizer_for_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of LLaSA's 65,560 added tokens that takes half a second of every prompt."""
    layout = load_layout(checkpoint("1b"))
    assert isinstance(layout, RowLayout)

    def table(_: object) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr(type(layout.prompts.tokenizer), "added_tokens_decoder", property(table))
    assert layout.prompt_ids(SPOKEN)
    with pytest.raises(
        ValueError, match=r"the text holds the control token <\|s_7\|>; take it out"
    ):
        layout.text_ids("say <|s_7|> now")


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(ValueError, match="text is empty"):
        load_layout(checkpoint("1b")).text_ids("  ")


def test_limits_are_of_prompt_and_speech_together() -> None:
    layout = RowLayout.read(GOLDEN / "model_1b_style", RowsConfig(max_length=100, min_tokens=50))
    assert layout.limits("three short words", 60, 0, 2048) == (39, 40)
    assert layout.limits("three short words", 10, 0, 20) == (50, 60)
    with pytest.raises(ValueError, match=r"prompt has 100 tokens, the limit .* 100; shorten"):
        layout.limits("word", 100, 0, 2048)


def test_codes_in_another_order_are_found_by_name(tmp_path: Path) -> None:
    names = sorted(f"<|s_{code}|>" for code in range(12))  # 0, 10, 11, 1, 2 ...
    plain = RowsConfig()
    rows = find_codes({name: 7 + row for row, name in enumerate(names)}, plain, tmp_path)[0]
    assert rows.tolist() == [7, 10, 11, 12, 13, 14, 15, 16, 17, 18, 8, 9]
    with pytest.raises(ValueError, match=r"2 tokens like a\{\} but none for code 1"):
        find_codes({"a0": 0, "a2": 1}, RowsConfig(code="a{}"), tmp_path)[0]
    with pytest.raises(ValueError, match=r"has no \{\} for the number"):
        find_codes({"a0": 0}, RowsConfig(code="a"), tmp_path)[0]


def test_codes_begin_at_an_offset_and_are_so_many(tmp_path: Path) -> None:
    """Orpheus names markers and codes alike: 0 to 9 are markers, codes begin at 10."""
    names = {f"<custom_token_{number}>": 40 + number for number in range(67)}
    names["<custom_token_007>"] = 7  # no number is written so
    at_ten = RowsConfig(code="<custom_token_{}>", first=10)
    assert find_codes(names, at_ten, tmp_path)[0].tolist() == list(range(50, 107))
    few = replace(at_ten, count=5)
    assert find_codes(names, few, tmp_path)[0].tolist() == list(range(50, 55))
    with pytest.raises(ValueError, match=r"none for code 67; codes count from rows.first=10"):
        find_codes(names, replace(at_ten, count=58), tmp_path)[0]
    with pytest.raises(ValueError, match="none for code 70"):
        find_codes(names, replace(at_ten, first=70), tmp_path)[0]
    with pytest.raises(ValueError, match=r"two codes of .* have one row"):
        find_codes(names | {"<custom_token_12>": 50}, at_ten, tmp_path)[0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            {"end": "<|s_2|>"},
            r"rows\.end <\|s_2\|> \(row \d+\) is also code 2 of rows\.code <\|s_\{\}\|>; give",
        ),
        ({"assistant": "<|s_7|>"}, r"a token of the prompt \(row \d+\) is also code 7"),
        ({"assistant": "<|s_300|>"}, r"has no token <\|s_300\|>"),
        (
            {"assistant": "<|SPEECH_GENERATION_END|>"},
            r"rows\.end <\|SPEECH_GENERATION_END\|> ends the speech and is in the prompt too",
        ),
        ({"code": "<|speech_{}|>"}, r"no token of .* looks like <\|speech_{}\|>; its last token"),
        ({"end": "<|STOP|>"}, r"has no token <\|STOP\|>; name the checkpoint's own"),
        ({"user": "<|SAY|>{text}"}, r"has no token <\|SAY\|>"),
    ],
)
def test_names_that_fit_no_code_or_marker_are_said(rows: dict[str, str], message: str) -> None:
    """An end that was one of the codes too decoded in silence, with two ids for one row."""
    with pytest.raises(ValueError, match=message):
        load_layout(checkpoint("1b", **rows))


def test_an_offset_leaves_markers_out_of_the_codes() -> None:
    layout = load_layout(checkpoint("1b", end="<|s_2|>", first=10, count=100))
    assert isinstance(layout, RowLayout)
    plain = RowLayout.read(GOLDEN / "model_1b_style", RowsConfig())
    assert layout.codes.tolist() == plain.codes[10:110].tolist()
    assert layout.end == plain.codes[2]
    assert len(set(layout.order(text_rows=True).tolist())) == layout.rows
    assert layout.order(text_rows=False).tolist() == [*layout.codes.tolist(), layout.end]


def test_a_text_holds_no_code() -> None:
    """Codes that are ordinary tokens, such as digits, would be spoken by a text that holds them."""
    layout = RowLayout.read(GOLDEN / "model_1b_style", RowsConfig(code="{}", count=10))
    assert layout.text_ids("seven words")
    with pytest.raises(ValueError, match="7 of the text is a code or the end of speech"):
        layout.text_ids("words7")


def test_stored_embeddings_of_codes_are_those_of_the_model() -> None:
    model = load("8b", text_rows=False)
    torch.testing.assert_close(code_embedding(checkpoint("8b")), model.embed(torch.arange(256)))


def test_a_stored_head_that_differs_from_tied_embeddings_counts_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = copied(tmp_path)
    state = load_file(folder / "model.safetensors")
    state["lm_head.weight"] = state["model.embed_tokens.weight"].clone()
    same = {name: tensor.clone() for name, tensor in state.items()}
    state["lm_head.weight"][0] += 1
    save_file(state, folder / "model.safetensors")
    model = load_speech_lm(at(folder), dtype=torch.float32, device=CPU, text_rows=True)
    assert "the stored head is used" in caplog.text
    row = model.layout.order(text_rows=True).tolist().index(0)
    torch.testing.assert_close(model.head.dense()[:, row], state["lm_head.weight"][0])
    config = model.decoder.config
    embedding, head = state_matrices(config, same, folder)
    assert head is embedding
    del state["lm_head.weight"]
    with pytest.raises(ValueError, match=r"has no tensor lm_head\.weight"):
        state_matrices(replace(config, tied=False), state, folder)


def test_wrong_folders_say_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere does not exist"):
        family_of(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no speech LM known here; looked for .*tokenizer\.json"):
        family_of(tmp_path)
    folder = copied(tmp_path)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"not readable \(.*\); looked for tokenizer\.json and"):
        RowLayout.read(folder, RowsConfig())
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(ValueError, match=r"looked for .*tokenizer\.json"):
        family_of(folder)
    with pytest.raises(ValueError, match=r"no tokenizer in .*; looked for tokenizer\.json"):
        RowLayout.read(folder, RowsConfig())


def test_a_tokenizer_without_a_chat_template_is_named(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    del settings["chat_template"]
    path.write_text(json.dumps(settings))
    with pytest.raises(ValueError, match="has no chat template"):
        load_layout(at(folder))
    assert load_layout(at(folder, chat=False)).n_codes == 256
