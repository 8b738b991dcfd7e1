"""Keyed uniforms: the same for an utterance whatever is decoded beside it, and independent of
everything else.
"""

import itertools

import pytest
import torch
from scipy.stats import chi2
from stubs import CPU, Markov, request, speculative

from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.randomness import DRAWS, uniforms
from speculative_tts.decoding.sampling.sampler import Sampler


def table(seed: int, *ids: str, positions: int = 20) -> torch.Tensor:
    return uniforms([(seed, id_) for id_ in ids], positions, device=CPU)


def test_a_batch_is_its_utterances_in_any_order_and_of_any_length() -> None:
    both = table(1, "a", "b")
    assert torch.equal(table(1, "b", "a"), both.flip(0))
    for positions in (1, 3, 7, 16, 17, 300):  # a longer table begins with the shorter one
        shared = min(positions, 20)
        longer = table(1, "a", positions=positions)
        assert torch.equal(longer[:, :shared], both[:1, :shared])


def test_seeds_and_ids_give_other_numbers() -> None:
    keys = [(0, "a"), (1, "a"), (0, "b"), (0, "1a"), (10, "a"), (1, "0\0a")]
    tables = [table(*key) for key in keys]
    for one, other in itertools.combinations(tables, 2):
        assert not (one == other).any()


def test_values_do_not_change_between_versions() -> None:
    """Stored runs resume with the numbers they began with; others raise `runs.naming.LAWS`."""
    assert (table(0, "a", positions=1)[0, 0] * 2**53).tolist() == [
        2711566276754812,
        8534543165246542,
        3500061889097685,
        675649990275809,
    ]


def test_uniforms_have_all_bits_of_float64() -> None:
    """They once were multiples of 2^-24: at 65,536 ids up to 5e-4 of the mass was never drawn.

    The last of 53 bits is set in half of 16,000: 6.1 deviations, false-alarm rate 1e-9.
    """
    many = table(0, *map(str, range(200)))
    assert many.dtype == torch.float64
    assert many.shape == (200, 20, DRAWS)
    assert ((many >= 0) & (many < 1)).all()
    assert torch.equal(many * 2**53, (many * 2**53).floor())
    odd = ((many * 2**53).long() % 2).double()
    assert abs(float(odd.mean()) - 0.5) < 6.1 * 0.5 / odd.numel() ** 0.5


def test_a_key_is_longer_than_a_generators_seed() -> None:
    """Of 300,000 ids these two had the same 32 bits of seed, hence every uniform in common."""
    one, other = table(0, "u29295", "u66993")
    assert not (one == other).any()


@pytest.mark.parametrize("by", [0, 1, 2])
def test_uniforms_are_uniform_and_independent(by: int) -> None:
    """Chi-square of pairs (one utterance's value and its neighbour's: next utterance, position or
    draw) on an 8 x 8 grid.

    n >= 20,000 pairs, 63 degrees of freedom, false-alarm rate 1e-9.
    """
    cells = (table(7, *map(str, range(400))) * 8).long()  # 400 x 20 x 4
    size = cells.shape[by] - 1
    pairs = 8 * cells.narrow(by, 0, size) + cells.narrow(by, 1, size)
    counts = pairs.flatten().bincount(minlength=64).double()
    expected = counts.sum() / 64
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert counts.sum() >= 20_000
    assert statistic < chi2.isf(1e-9, 63)


def test_decoding_leaves_the_default_generator_alone() -> None:
    before = torch.get_rng_state()
    chain = Markov.random(5, 0)
    first = speculative(chain, chain.near(1, 1.0), Tolerance(0.2), (4,), Sampler(), 3, [request()])
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    again = speculative(chain, chain.near(1, 1.0), Tolerance(0.2), (4,), Sampler(), 3, [request()])
    assert again == first
    torch.set_rng_state(before)
