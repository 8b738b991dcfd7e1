"""NeuTTS by its configuration alone: a LLaSA-shaped checkpoint with NeuTTS's names of tokens."""

import shutil
from pathlib import Path

import pytest
import torch
from stubs import speculative

from speculative_tts.commands import decode
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.families import row_prompt as rows
from speculative_tts.models.families.code_rows import RowLM
from speculative_tts.models.families.registry import load_speech_lm
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig

GOLDEN = Path(__file__).parents[2] / "golden/llasa/model_1b_style"
CPU = torch.device("cpu")
NAMES = {"<|s_": "<|speech_", "TEXT_UNDERSTANDING": "TEXT_PROMPT"}
PROMPT = Prompt("One.", "Two.", torch.tensor([3, 1]))


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckpointConfig:
    """configs/target/neutts.yaml, with another place."""
    folder = tmp_path / "neutts"
    shutil.copytree(GOLDEN, folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        text = (folder / name).read_text()
        for old, new in NAMES.items():
            text = text.replace(old, new)
        (folder / name).chmod(0o644)
        (folder / name).write_text(text)
    monkeypatch.setattr(rows, "_phonemes", lambda text, language: f"[{language} {text}]")
    return decode.main.compose(["target=neutts", f"target.path={folder}"]).target


def load(target: CheckpointConfig) -> RowLM:
    model = load_speech_lm(target, dtype=torch.float32, device=CPU, text_rows=False)
    assert isinstance(model, RowLM)
    return model


def test_the_prompt_is_its_authors(target: CheckpointConfig) -> None:
    layout = load(target).layout
    ids = layout.prompt_ids(PROMPT)
    assert layout.prompts.tokenizer.decode(ids) == (
        "<|begin_of_text|>user: Convert the text to speech:<|TEXT_PROMPT_START|>"
        "[en-us Two.] [en-us One.]<|TEXT_PROMPT_END|>\n"
        "assistant:<|SPEECH_GENERATION_START|><|speech_3|><|speech_1|>"
    )
    assert layout.sampling["temperature"] == 1.0
    assert layout.sampling["top_k"] == 50
    assert layout.limits("One.", 10, 0.0, 100.0)[0] == 50


@pytest.mark.usefixtures("kernels")
def test_it_speaks_and_its_lower_layers_draft(target: CheckpointConfig) -> None:
    model = load(target)
    prompt = model.prompt(model.prompt_ids(PROMPT))
    request = Request("u", prompt, None, 4, 12, seed=0)
    stops, sampler = model.layout.stop_ids, Sampler(temperature=0.0)
    (alone,) = autoregressive(model, stops, sampler, [request])
    (sped,) = speculative(model, model.subset([0]), Tolerance(0.0), stops, sampler, 3, [request])
    assert alone.tokens == sped.tokens
    assert len(alone.tokens) >= 4
    assert all(0 <= token < model.layout.speech_vocab_size for token in alone.tokens)
