"""What is watched while a target trains: sampled by the engine's loop, heard by the judge."""

from pathlib import Path

import numpy as np
import pytest
import torch
from fake_models import write_codec
from small_target import LAYOUT, save_target
from torch.nn.functional import cross_entropy

from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.prompt import Prompt
from speculative_tts_makers.corpora.testset import ListRow
from speculative_tts_makers.training import watch
from speculative_tts_makers.training.watch import TinySampling, Watch, Watched

SHORT = TinySampling(min_tokens_per_word=2.0, max_tokens_per_word=5.0)


@pytest.fixture
def watched(tmp_path: Path) -> Watch:
    rng = np.random.default_rng(0)
    write_codec(tmp_path / "codec", rng, LAYOUT.n_codes)
    rows = [
        Watched(
            ListRow(text, "s", True, text, "", "bravo", ""),
            Prompt(text, "bravo", torch.from_numpy(rng.integers(LAYOUT.n_codes, size=4))),
            torch.from_numpy(rng.integers(LAYOUT.n_codes, size=length)),
        )
        for text, length in (("alpha", 4), ("charlie alpha bravo", 60))
    ]
    return Watch(rows, TinyCodec.load(tmp_path / "codec"), LAYOUT, SHORT, seed=1)


def loaded(target: Path) -> MergedVocabLM:
    return MergedVocabLM.load(target, dtype=torch.float32, device=torch.device("cpu"))


def test_figures(watched: Watch, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One word of four is heard wrongly, another twice; the second row is a tenth of its length."""
    heard = iter(["alpha alpha", "charlie bravo bravo"])
    words: list[object] = []

    def recogniser(grammar: str, vocabulary: object) -> object:
        words.append((grammar, vocabulary))
        return lambda wave: next(heard)

    monkeypatch.setattr(watch, "load_recogniser", recogniser)
    figures = watched(loaded(target))
    assert words == [("words", LAYOUT.words)]
    assert figures["dev_word_error_rate"] == 2 / 4
    assert figures["dev_bad_length"] == 1 / 2
    assert figures["dev_loss"] != figures["dev_loss_random_text"]


def test_lengths_stay_within_bounds_whatever_is_sampled_beside(
    watched: Watch, target: Path
) -> None:
    model = loaded(target)
    both = watched.sample(model)
    assert 2 <= len(both[0]) <= 5
    assert 6 <= len(both[1]) <= 15
    assert all(code < LAYOUT.n_codes for codes in both for code in codes)
    alone = Watch(watched.rows[1:], watched.codec, LAYOUT, SHORT, seed=1).sample(model)
    assert alone == both[1:]


def test_the_loss_is_that_of_the_whole_sequence(watched: Watch, target: Path) -> None:
    model, nats, count = save_target(target), 0.0, 0
    for item in watched.rows:
        prompt = LAYOUT.prompt_ids(item.prompt)
        ids, speech = [*prompt, *item.reference.tolist()], slice(len(prompt) - 1, None)
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, speech, : LAYOUT.speech_vocab_size]
        wanted = torch.tensor([*item.reference.tolist(), LAYOUT.eos_id])
        nats += float(cross_entropy(logits, wanted, reduction="sum"))
        count += len(wanted)
    true, _ = watched.text_gap(loaded(target))
    assert true == pytest.approx(nats / count, rel=1e-4)
