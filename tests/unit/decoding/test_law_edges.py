"""Where a law or a count hangs by one case: found by mutation."""

import pytest
import torch
from computing import computing

from speculative_tts.decoding.outcome import Counts, Round, Tally
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.group import Group
from speculative_tts.decoding.rules.relaxed import Divergence, Top, Typical
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.randomness import draw
from speculative_tts.decoding.sampling.sampler import StopRule, likeliest
from speculative_tts.schema.decode import Kernels

CPU = torch.device("cpu")


def test_a_tail_below_float32_is_reached() -> None:
    """Its mass is lost in a running sum of float32: the id would never be drawn."""
    probs = torch.tensor([[1.0, 2.0**-30]])
    uniform = torch.tensor([1 - 2.0**-40], dtype=torch.float64)
    with computing(Kernels.torch):
        assert draw(probs, uniform).tolist() == [1]


ALONE = (torch.arange(3), torch.arange(2))


@pytest.mark.parametrize(
    "rule", [Tolerance(), Group(*ALONE, *ALONE), Top(), Typical(), Divergence()]
)
def test_an_impossible_token_is_not_accepted_at_the_smallest_uniform(rule: AcceptanceRule) -> None:
    target, draft = torch.tensor([[[0.0, 1.0]]]), torch.tensor([[[1.0, 0.0]]])
    drafted, uniforms = torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 1, 2)
    assert not rule.accept(target, draft, drafted, uniforms.double())


def test_the_largest_logit_may_be_zero() -> None:
    assert likeliest(torch.tensor([[[-1.0, 0.0, -2.0]]])).tolist() == [[[0, 1, 0]]]


def test_a_penalty_reads_the_prompts_of_the_batch_that_runs() -> None:
    """The rule is loaded in place: ids of the batch before must be gone."""
    stop = StopRule.build((3,), 4, [0, 0], CPU, [(0,), ()])
    stop.load([0, 0], [(), (1, 2)])
    history, positions = torch.zeros(2, 4, dtype=torch.int64), torch.zeros(2, 1, dtype=torch.int64)
    laws = RepetitionPenalty(penalty=2.0)(torch.ones(2, 1, 4), history, positions, stop)
    wanted = torch.tensor([[[1.0, 1.0, 1.0, 1.0]], [[1.0, 0.5, 0.5, 1.0]]]).softmax(-1)
    torch.testing.assert_close(laws, wanted)


def test_rounds_are_tallied_row_by_row() -> None:
    def flags(*values: int) -> torch.Tensor:
        return torch.tensor(values).bool()

    tally = Tally(3, 2, CPU)
    tally.add(Round(flags(1, 1, 1), torch.tensor([2, 2, 1]), torch.tensor([2, 1, 1]),
                    flags(0, 1, 0), flags(0, 0, 1)))  # fmt: skip
    tally.add(Round(flags(1, 0, 1), torch.tensor([1, 2, 2]), torch.tensor([0, 2, 2]),
                    flags(0, 1, 1), flags(0, 0, 0)))  # fmt: skip
    assert tally.counts() == [
        Counts(2, [2, 1], [1, 1], residuals=1, bonuses=1, residual_fallbacks=0),
        Counts(1, [1, 1], [1, 0], residuals=1, bonuses=0, residual_fallbacks=1),
        Counts(2, [2, 1], [2, 1], residuals=0, bonuses=1, residual_fallbacks=1),
    ]
    tally.clear()
    assert tally.counts() == [Counts(0, [0, 0], [0, 0])] * 3
