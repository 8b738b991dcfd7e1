"""A decoder's passes in Triton beside `Decoder.extend` and a prefill a row at a time in torch."""

from collections.abc import Iterator

import pytest
import torch
from computing import computing
from decoders import HIDDEN, build, state
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from triton_tests import DEVICE, needs_triton

from speculative_tts.models.decoder.cache import KVCache
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.gpu import step, tiles
from speculative_tts.models.gpu.capture import replays
from speculative_tts.models.gpu.prefill import bucket
from speculative_tts.models.gpu.tiles import FEW
from speculative_tts.models.gpu.triton_runtime import anywhere, usable
from speculative_tts.schema.decode import Kernels

pytestmark = needs_triton


@pytest.fixture(scope="module")
def model() -> Iterator[MergedVocabLM]:
    """One layer with torch's weights; the kernels of a call are `by_triton`'s to choose."""
    from static_loops import moved

    with computing(Kernels.torch):
        yield moved(build(state(3), (0,)), DEVICE)


@pytest.fixture(autouse=True)
def few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter runs one program after the other."""
    monkeypatch.setattr(tiles, "of_attention", lambda *_: tiles.AttentionTile(1, 32, 4))


def both(model: MergedVocabLM, lengths: list[int], fed: list[int], seed: int) -> list[list[Tensor]]:
    """Return logits of a prefill and of passes that feed so many tokens, by torch and by Triton.

    Each pass but the first begins one position after the one before it did: its cache holds more.
    """
    g = torch.Generator().manual_seed(seed)
    prompts = [torch.randn(length, HIDDEN, generator=g).to(DEVICE) for length in lengths]
    ids = [torch.randint(38, (len(lengths), new), generator=g).to(DEVICE) for new in fed]

    def logits() -> list[Tensor]:
        cache, start = model.cache(len(lengths), 64), torch.tensor(lengths, device=DEVICE)
        first = model.prefill(prompts, cache)
        return [first, *(model.extend(one, cache, start + n) for n, one in enumerate(ids))]

    exact = logits()
    with computing(Kernels.triton), anywhere():
        assert usable(DEVICE)
        return [exact, logits()]


@examples(3)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.lists(st.integers(1, 5), min_size=1, max_size=2),
    st.integers(0, 99),
)
def test_passes_are_torchs(
    model: MergedVocabLM, lengths: list[int], fed: list[int], seed: int
) -> None:
    for one, other in zip(*both(model, lengths, fed, seed), strict=True):
        assert torch.allclose(one, other, atol=2e-5)


def test_more_rows_than_are_few_are_torchs(model: MergedVocabLM) -> None:
    for one, other in zip(*both(model, [5, 2, 7], [FEW // 3 + 1], 0), strict=True):
        assert torch.allclose(one, other, atol=2e-5)


def test_too_many_new_positions_are_left_to_torch(model: MergedVocabLM) -> None:
    assert step.takes(model.decoder, torch.zeros(1, 32, HIDDEN))
    assert not step.takes(model.decoder, torch.zeros(1, 33, HIDDEN))
    (_, one), (_, other) = both(model, [4], [33], 0)
    assert torch.allclose(one, other, atol=2e-5)


def test_without_a_gpu_torch_computes() -> None:
    assert not usable(torch.device("cpu"))
    with anywhere():
        assert usable(torch.device("cpu"))
    assert not usable(torch.device("cpu"))


def test_a_row_of_a_kept_cache_is_filled_alone(model: MergedVocabLM) -> None:
    """A stream gives a row that has ended to the next utterance; the others go on."""
    g = torch.Generator().manual_seed(2)
    old, new = (torch.randn(n, HIDDEN, generator=g).to(DEVICE) for n in (6, 9))
    with anywhere():
        cache, lone = model.cache(3, 64), model.cache(1, 64)
        assert isinstance(cache, KVCache)
        model.prefill([old, old, old], cache)
        others = cache.storage[:, :, [0, 2]].clone()
        assert torch.allclose(model.prefill([new], cache.row(1)), model.prefill([new], lone))
        assert torch.equal(cache.storage[:, :, [0, 2]], others)
        start = torch.tensor([9], device=DEVICE)
        ids = torch.tensor([[3]], device=DEVICE)
        own = model.extend(ids, cache.row(1), start)
        assert torch.equal(own, model.extend(ids, lone, start))


@pytest.mark.skipif(DEVICE.type == "cpu", reason="no GPU that torch can see")
@computing(Kernels.triton)
@torch.inference_mode()
def test_a_recorded_prefill_is_the_eager_one(model: MergedVocabLM) -> None:
    """At the third time it is replayed, for another row too."""
    g = torch.Generator().manual_seed(5)
    cache = model.cache(3, 64)
    for row in (0, 1, 2, 0):
        prompt = torch.randn(7 + row, HIDDEN, generator=g).to(DEVICE)
        alone = model.cache(1, 64)
        exact = model.prefill([prompt], alone)
        with replays():
            assert torch.allclose(model.prefill([prompt], cache.row(row)), exact, atol=1e-6)
        assert torch.equal(
            cache.storage[:, :, row, :, : len(prompt)], alone.storage[:, :, 0, :, : len(prompt)]
        )
    assert list(cache.prefills) == [(1, 64)]
    assert cache.prefills[1, 64] is not None


@pytest.mark.skipif(DEVICE.type == "cpu", reason="no GPU that torch can see")
@computing(Kernels.triton)
@torch.inference_mode()
def test_prefills_are_recorded_after_those_of_a_cache_that_is_gone(model: MergedVocabLM) -> None:
    """They shared one pool of memory, which torch no longer had once its graphs were let go."""
    prompts = [torch.randn(length, HIDDEN).to(DEVICE) for length in (5, 70)]
    for _ in range(2):
        cache = model.cache(1, 128)
        with replays():
            for prompt in (*prompts, *prompts, *prompts):
                model.prefill([prompt], cache)
        assert len(cache.prefills) == 2
        del cache


@pytest.mark.parametrize(
    ("longest", "batch", "length"), [(1, 1, 64), (64, 1, 64), (65, 2, 128), (65, 64, 80)]
)
def test_prompts_are_padded_to_few_lengths(longest: int, batch: int, length: int) -> None:
    assert bucket(longest, batch) == length
