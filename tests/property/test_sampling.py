"""Sampling transforms against transformers' processors, and the inverse-CDF draw."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import probabilities
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from speculative_tts.decoding.sampling.randomness import draw
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule

VOCAB, STOPS = 12, (9, 11)
LARGEST = 1 - 2.0**-53  # of the uniform grid
samplers = st.builds(
    Sampler,
    temperature=st.sampled_from([0.3, 0.8, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 3, 12, 50]),
    top_p=st.sampled_from([1e-6, 0.3, 0.8, 0.95, 1.0]),
)
seeds = st.integers(0, 2**31)


def logits_of(seed: int, *shape: int) -> Tensor:
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def call(sampler: Sampler, logits: Tensor, *, first: int = 0, minimum: int = 0) -> Tensor:
    """Laws of consecutive positions of one row, from `first` on: logits [new, vocab] -> [new,
    vocab].
    """
    stop = StopRule.build(STOPS, logits.shape[-1], [minimum], logits.device)
    positions = first + torch.arange(len(logits))[None]
    return sampler(logits[None], torch.zeros(1, 64, dtype=torch.int64), positions, stop)[0]


def test_ties_of_top_p() -> None:
    """The set is the smallest with the probability: a token that only starts at it is left out."""
    logits = torch.zeros(1, 4, dtype=torch.float64)
    for top_p, kept in ((0.25, 1), (0.5, 2), (0.75, 3), (1.0, 4)):
        for top_k in (0, 4):
            nothing = torch.zeros(1, 1, dtype=torch.int64)
            stop = StopRule.build((), 4, [0], logits.device)
            law = Sampler(top_p=top_p, top_k=top_k)(logits[None], nothing, nothing, stop)
            assert int((law > 0).sum()) == kept


@given(samplers, st.integers(0, 6), st.integers(0, 6), seeds)
def test_laws_equal_transformers(sampler: Sampler, minimum: int, position: int, seed: int) -> None:
    """In transformers' order. Differences outside this test: among equal logits at the k-th place
    transformers keeps all, we keep k; its temperature 0 is another code path.
    """
    logits = logits_of(seed, 1, VOCAB)
    processors = LogitsProcessorList(
        [
            MinNewTokensLengthLogitsProcessor(2, minimum, list(STOPS), device="cpu"),
            TemperatureLogitsWarper(sampler.temperature),
        ]
    )
    if sampler.top_k:
        processors.append(TopKLogitsWarper(sampler.top_k))
    if sampler.top_p < 1:
        processors.append(TopPLogitsWarper(sampler.top_p))
    ids = torch.zeros(1, 2 + position, dtype=torch.int64)
    expected = processors(ids, logits.clone()).softmax(-1)
    found = call(sampler, logits, first=position, minimum=minimum)
    assert torch.equal(found > 0, expected > 0)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@given(samplers, st.integers(0, 3), seeds)
def test_laws_equal_the_reference_and_float32_is_near(
    sampler: Sampler, minimum: int, seed: int
) -> None:
    logits = logits_of(seed, 4, VOCAB)
    found = call(sampler, logits, minimum=minimum)
    masked = logits.clone()
    masked[:minimum, list(STOPS)] = float("-inf")
    for row, law in zip(masked.tolist(), found.tolist(), strict=True):
        assert law == pytest.approx(probabilities(row, sampler), abs=1e-12)
    single = call(sampler, logits.float(), minimum=minimum)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.sum(-1), torch.ones(4), atol=1e-6, rtol=0)


@given(seeds, st.integers(0, 3))
def test_temperature_zero_is_the_one_hot_of_the_allowed_argmax(seed: int, minimum: int) -> None:
    logits = logits_of(seed, 4, VOCAB)
    law = call(Sampler(temperature=0.0, top_k=3, top_p=0.5), logits, minimum=minimum)
    allowed = logits.clone()
    allowed[:minimum, list(STOPS)] = float("-inf")
    expected = torch.nn.functional.one_hot(allowed.argmax(-1), VOCAB)
    assert torch.equal(law, expected.double())


def test_stop_ids_are_impossible_before_the_minimum_of_each_row() -> None:
    stop = StopRule.build(STOPS, VOCAB, [0, 2, 5], torch.device("cpu"))
    positions = torch.tensor([[0, 1], [1, 2], [3, 4]])
    law = Sampler()(torch.zeros(3, 2, VOCAB), torch.zeros(3, 9).long(), positions, stop)
    possible = law[..., list(STOPS)].gt(0)
    assert possible.all(-1).tolist() == [[True, True], [False, True], [False, False]]
    assert possible.any(-1).tolist() == possible.all(-1).tolist()
    assert (law[..., 0] > 0).all()


def test_equal_logits_keep_exactly_k() -> None:
    law = call(Sampler(top_k=3), torch.zeros(1, VOCAB))
    assert int((law > 0).sum()) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature -1.0 is below 0; use 0 for greedy"),
        ({"top_k": -1}, "top_k -1 is below 0; use 0 for no limit"),
        ({"top_p": 0.0}, r"top_p 0.0 is outside \(0, 1\]; use 1 for no limit"),
        ({"top_p": 1.5}, r"top_p 1.5 is outside \(0, 1\]"),
    ],
)
def test_bad_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampler(**options)


weights = st.lists(st.one_of(st.just(0.0), st.floats(1e-30, 1.0)), min_size=1, max_size=20)
grid = st.one_of(st.just(0.0), st.just(LARGEST), st.integers(0, 2**53 - 1).map(lambda i: i / 2**53))


@given(weights.filter(any), grid, st.sampled_from([torch.float32, torch.float64]))
def test_draw_never_takes_a_token_without_mass(
    mass: list[float], uniform: float, dtype: torch.dtype
) -> None:
    """At both ends of the grid too; zeros in front, between and behind; any total mass."""
    probs = torch.tensor(mass, dtype=dtype)
    if not probs.any():
        return
    token = int(draw(probs, torch.tensor(uniform, dtype=torch.float64)))
    assert probs[token] > 0
    if uniform == 0.0:
        assert token == int(probs.nonzero()[0])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any))
def test_draw_inverts_the_cumulative_law(counts: list[int]) -> None:
    """On a grid of as many points as the total, token x is drawn counts[x] times, in order."""
    total = sum(counts)
    uniform = (torch.arange(total, dtype=torch.float64) + 0.5) / total
    drawn = draw(torch.tensor(counts, dtype=torch.float64).expand(total, -1), uniform)
    assert drawn.bincount(minlength=len(counts)).tolist() == counts
    assert drawn.tolist() == sorted(drawn.tolist())


@given(seeds)
def test_draws_of_a_batch_are_those_of_its_rows(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    probs = logits_of(seed, 3, 4, VOCAB).float().softmax(-1)
    uniform = torch.rand(3, 4, generator=generator).double()
    whole = draw(probs, uniform)
    assert [
        [int(draw(probs[i, j], uniform[i, j])) for j in range(4)] for i in range(3)
    ] == whole.tolist()
