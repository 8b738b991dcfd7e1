"""Batches that a draft learns from, its loss over them, and how often its target accepts it."""

from functools import partial

import pytest
import torch
from small_target import LAYOUT

from speculative_tts.training import objective
from speculative_tts.training.checkpoint import build_model, read_checkpoint
from speculative_tts.training.data.columns import Columns
from speculative_tts.training.data.pairs import (
    IGNORED,
    PromptedSequences,
    SequenceWriter,
    write_rows,
)
from speculative_tts.training.objective import Objective, expected_acceptance

WRITING = SequenceWriter(partial(write_rows, LAYOUT, LAYOUT.eos_id, None), LAYOUT.eos_id)


def pairs(codes, seed, split="train"):
    return PromptedSequences(Columns.open([codes], split, LAYOUT.n_codes), WRITING, seed)


def test_text_and_padding_do_not_count(target, codes):
    config, tensors = read_checkpoint(target)
    model = build_model(config, tensors, torch.float32)
    batch = pairs(codes, 0).batch(range(3))
    speech = batch.targets[batch.targets != IGNORED]
    assert int(speech.max()) == LAYOUT.eos_id
    assert (speech == LAYOUT.eos_id).sum() == 3
    loss, _ = Objective(model, {"ce": 1.0})(batch)
    logits = model(batch.inputs).logits
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), reduction="sum"
    )
    torch.testing.assert_close(loss, expected)


def test_target_accepts_itself(target, codes):
    config, tensors = read_checkpoint(target)
    model = build_model(config, tensors, torch.float32)
    batch = pairs(codes, 0, "dev").batch(range(4))
    accepted, count = expected_acceptance(model, model, batch, lambda x: x.softmax(-1))
    assert accepted == pytest.approx(count, rel=1e-5)


def test_distributions_of_few_positions_are_in_memory(target, codes, monkeypatch):
    """Of LLaSA's vocabulary those of a whole batch take more than a GPU has left."""
    config, tensors = read_checkpoint(target)
    model = build_model(config, tensors, torch.float32)
    draft = build_model(config, {n: t + 0.1 for n, t in tensors.items()}, torch.float32)
    batch = pairs(codes, 0, "dev").batch(range(4))
    whole, count = expected_acceptance(model, draft, batch, lambda x: x.softmax(-1))
    seen = []
    monkeypatch.setattr(objective, "CHUNK", 7)

    def sampler(logits):
        seen.append(len(logits))
        return logits.softmax(-1)

    assert expected_acceptance(model, draft, batch, sampler) == (pytest.approx(whole), count)
    assert max(seen) == 7
    assert sum(seen) == 2 * count


def test_batches_depend_on_nothing_but_seed_and_numbers(codes):
    one, two = (pairs(codes, 5) for _ in range(2))
    two.batch(range(9))
    for number in (0, 30, 77):
        first, second = one.batch([number]), two.batch([number])
        assert torch.equal(first.inputs, second.inputs)
    other = pairs(codes, 6)
    assert any(not torch.equal(one.batch([n]).inputs, other.batch([n]).inputs) for n in range(4))


def test_an_epoch_takes_every_utterance_once(codes):
    own = pairs(codes, 1)
    texts = sorted(own.pair(n)[1].codes for n in range(24))
    for epoch in range(1, 3):
        numbers = range(epoch * len(own), (epoch + 1) * len(own))
        assert sorted(own.pair(n)[1].codes for n in numbers) == texts
    assert len(own) == 24
