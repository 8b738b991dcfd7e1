"""The watch's sampler and its recogniser."""

import pytest
import torch

from speculative_tts.models.layout import SpeechLayout
from speculative_tts.training.listening import WordErrors, word_errors
from speculative_tts.training.sampling import Sampling, sample_speech, transform
from speculative_tts.training.target import ModelConfig, build_model

LAYOUT = SpeechLayout.merged(12, ("alpha", "bravo"))
SHORT = {"min_tokens_per_word": 2.0, "max_tokens_per_word": 5.0}


def test_top_k_then_top_p() -> None:
    logits = torch.log(torch.tensor([[0.4, 0.3, 0.2, 0.1]]))
    top_2 = transform(logits, Sampling(1.0, 2, 1.0))
    torch.testing.assert_close(top_2, torch.tensor([[4 / 7, 3 / 7, 0.0, 0.0]]))
    nucleus = transform(logits, Sampling(1.0, 4, 0.7))
    torch.testing.assert_close(nucleus, torch.tensor([[4 / 7, 3 / 7, 0.0, 0.0]]))
    cold = transform(logits, Sampling(0.5, 4, 1.0))
    torch.testing.assert_close(cold, torch.tensor([[16.0, 9.0, 4.0, 1.0]]) / 30)


def test_lengths_stay_within_bounds() -> None:
    model = build_model(ModelConfig(16, 24, 2, 2, 1), LAYOUT, seed=0)
    inputs = [
        LAYOUT.prompt_ids("alpha", "bravo", [1, 2]),
        LAYOUT.prompt_ids("bravo bravo", "", []),
    ]
    generator = torch.Generator().manual_seed(0)
    outputs = sample_speech(model, LAYOUT, inputs, [1, 2], Sampling(**SHORT), generator)
    assert 2 <= len(outputs[0]) <= 5
    assert 4 <= len(outputs[1]) <= 10
    assert all(code < LAYOUT.eos_id for codes in outputs for code in codes)


def test_a_row_does_not_depend_on_its_batch() -> None:
    model = build_model(ModelConfig(16, 24, 2, 2, 1), LAYOUT, seed=0)
    short, long = LAYOUT.prompt_ids("alpha", "", []), LAYOUT.prompt_ids("bravo", "alpha", [3] * 9)
    greedy = Sampling(1.0, 1, 1.0, **SHORT)
    alone = sample_speech(model, LAYOUT, [short], [1], greedy, torch.Generator())
    both = sample_speech(model, LAYOUT, [short, long], [1, 1], greedy, torch.Generator())
    assert both[0] == alone[0]


@pytest.mark.parametrize(
    ("heard", "errors"), [("one two", 0), ("one", 1), ("one six two", 1), ("two one", 2), ("", 2)]
)
def test_word_errors(heard: str, errors: int) -> None:
    assert word_errors(["one", "two"], heard.split()) == WordErrors(errors, 2)
