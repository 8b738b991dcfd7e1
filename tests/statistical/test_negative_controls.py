"""The comparison of `test_exactness` must find each of these faults, and the counting itself must
be right.
"""

from collections import Counter

import pytest
import torch
from faults import FAULTS, Fault
from goodness import chi_square, mismatches
from reference import marginal
from stubs import speculative
from test_exactness import DRAFT, LAW, MANY, SAMPLER, STOPS, TARGET

from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_chi_square_finds_faults(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """n = 20,000 as in the tests it controls; some comparison of the 8 must exceed its bound of
    false-alarm rate 1e-9.
    """
    fault.loop(monkeypatch)
    target, rule = fault.target(TARGET.table), fault.rule(Tolerance(0.0))
    found = speculative(target, DRAFT, rule, STOPS, SAMPLER, 2, MANY)
    assert mismatches(found, LAW)


@pytest.mark.parametrize(
    "other",
    [
        Sampler(temperature=0.9, top_k=5, top_p=0.95),
        Sampler(temperature=0.8, top_k=4, top_p=0.95),
        Sampler(temperature=0.8, top_k=5, top_p=0.9),
    ],
)
def test_chi_square_finds_a_slightly_different_sampler(other: Sampler) -> None:
    """n = 20,000. The power of the comparison: a tenth of the temperature, one token of top-k, 5 %
    of top-p.
    """
    found = speculative(TARGET, DRAFT, Tolerance(0.0), STOPS, other, 2, MANY)
    assert mismatches(found, LAW)


def test_the_bound_holds_for_samples_of_the_law_itself() -> None:
    """200 samples of n = 20,000 from the exact law of the tokens (1, 2): the mean statistic is the
    degrees of freedom (standard error sqrt(2 df / 200); 6.2 of them are a false-alarm rate of
    1e-9), and none exceeds its bound.
    """
    law = marginal(LAW, (1, 2))
    cells, mass = list(law), torch.tensor(list(law.values()), dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    statistics = []
    for _ in range(200):
        drawn = torch.multinomial(mass, len(MANY), replacement=True, generator=generator)
        counts = Counter({cells[i]: n for i, n in enumerate(drawn.bincount().tolist()) if n})
        statistic, bound = chi_square(counts, law)
        assert statistic < bound
        statistics.append(statistic)
    large = sum(len(MANY) * p >= 25 for p in law.values())
    freedom = [large - 1, large]  # depending on whether the pooled rest is a cell of its own
    slack = 6.2 * (2 * large / 200) ** 0.5
    assert freedom[0] - slack < sum(statistics) / 200 < freedom[1] + slack


def test_an_output_that_the_law_excludes_is_always_found() -> None:
    assert chi_square(Counter({(0,): 999, (1,): 1}), {(0,): 1.0})[0] == float("inf")
