"""The relaxed rules by algebra: what they do, against the papers' formulas in plain floats."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rule_laws import NEAREST, RELAXED, VECTORS
from rule_laws import ByChance as Case
from test_acceptance import drafts, spread
from torch import Tensor

from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.relaxed import Divergence, Dynamic, Neighbours, Typical

TIGHT = 1e-12
VOCAB = len(NEAREST)
seeds = st.integers(0, 2**31)
cases = pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, some in RELAXED.items() for case in some]
)
# Shares of 60, so that ties are frequent and sums do not hang on the order of additions.
shares = st.lists(st.sampled_from([0, 0, 1, 2, 3, 7, 12]), min_size=VOCAB, max_size=VOCAB)
laws = shares.map(lambda parts: floats([*parts[:-1], 60 - sum(parts[:-1])]) / 60)


def floats(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@cases
@given(laws, laws, st.floats(0, 1, exclude_max=True))
def test_verification_is_the_papers(case: Case, target: Tensor, draft: Tensor, u: float) -> None:
    """Every drafted token, judged and followed; `u` on neither side of a chance by rounding."""
    q, p = target.tolist(), draft.tolist()
    tokens = draft.nonzero()
    chances = floats([case.chance(q, p, x) for (x,) in tokens.tolist()])
    rows = (len(tokens), 2, VOCAB)
    uniforms = torch.full((len(tokens), 1, 2), u, dtype=torch.float64)
    ones = torch.ones(len(tokens), dtype=torch.int64)
    made = case.rule.judge(target.expand(rows), draft.expand(rows)[:, :1], tokens, ones, uniforms)
    clear = (chances - u).abs() > TIGHT
    assert torch.equal(made.accepted.bool()[clear], (u < chances)[clear])
    for (x,), passed, law in zip(tokens.tolist(), made.accepted, made.next_probs, strict=True):
        after = q if passed else case.law_after(q, p, x)
        torch.testing.assert_close(law, floats(after), atol=TIGHT, rtol=0)


@pytest.mark.parametrize("case", RELAXED["neighbours"], ids=["by delta", "by ratio"])
@given(laws, laws)
def test_what_follows_is_of_the_token_that_was_rejected(
    case: Case, target: Tensor, draft: Tensor
) -> None:
    """The second of two; the first, drafted by the target's own law, always passes."""
    first = int(draft.argmax())
    uniforms = floats([0.0, 1 - TIGHT])[None, :, None].expand(1, 2, 2)
    given = torch.stack([draft, target, target])[None], torch.stack([draft, draft])[None]
    for second in draft.nonzero()[:, 0].tolist():
        if case.chance(target.tolist(), draft.tolist(), second) < 1 - 2 * TIGHT:
            tokens = torch.tensor([[first, second]])
            made = case.rule.judge(*given, tokens, torch.tensor([2]), uniforms)
            law = floats(case.law_after(target.tolist(), draft.tolist(), second))
            assert made.accepted.tolist() == [1]
            torch.testing.assert_close(made.next_probs[0], law, atol=TIGHT, rtol=0)


@cases
@given(laws)
def test_nothing_drafted_is_drawn_from_the_target(case: Case, target: Tensor) -> None:
    nothing = 0 * target
    assert torch.equal(case.rule.residual(target, nothing), target)
    torch.testing.assert_close(case.rule.output_law(target, nothing), target, atol=TIGHT, rtol=0)


@pytest.mark.parametrize(
    ("strict", "same"),
    [
        (Neighbours(torch.tensor(NEAREST), 0.0), True),
        (Neighbours(torch.tensor(NEAREST), ratio=1.0), True),
        (Neighbours(torch.empty(VOCAB, 0, dtype=torch.int64)), True),
        (Dynamic(VECTORS, reach=0), True),
        (Dynamic(VECTORS, gap=0.0), True),
        (Typical(1.0, 1e9), False),
        (Divergence(0.0), False),
    ],
)
@given(laws, laws, seeds)
def test_a_rule_at_its_strictest_has_the_targets_law(
    strict: AcceptanceRule, same: bool, target: Tensor, draft: Tensor, seed: int
) -> None:
    """And decides like the exact rule, where it is one."""
    torch.testing.assert_close(strict.output_law(target, draft), target, atol=TIGHT, rtol=0)
    drafted, uniforms = drafts(draft[None], 20, seed)
    wide = [law[None, None].expand(1, 20, -1) for law in (target, draft)]
    if same:
        exact = Tolerance(0.0).accept(*wide, drafted, uniforms)
        assert torch.equal(strict.accept(*wide, drafted, uniforms), exact)


@cases
@given(st.lists(st.tuples(laws, laws), min_size=2, max_size=4), seeds)
def test_a_batch_is_its_rows(case: Case, pairs: list[tuple[Tensor, Tensor]], seed: int) -> None:
    target, draft = (torch.stack(one) for one in zip(*pairs, strict=True))
    drafted, uniforms = drafts(draft, 1, seed)
    ones = torch.ones(len(pairs), dtype=torch.int64)
    given = (*spread(target, draft), drafted, ones, uniforms)
    whole = case.rule.judge(*given)
    law = case.rule.output_law(target, draft)
    for row in range(len(pairs)):
        alone = case.rule.judge(*(x[row : row + 1] for x in given))
        assert torch.equal(alone.accepted[0], whole.accepted[row])
        assert torch.equal(alone.next_probs[0], whole.next_probs[row])
        assert torch.equal(case.rule.output_law(target[row], draft[row]), law[row])


@cases
def test_no_rows_have_no_chances(case: Case) -> None:
    nothing = torch.zeros(0, VOCAB)
    assert case.rule.acceptance_probability(nothing, nothing).shape == (0,)


@given(laws)
def test_a_draft_with_the_targets_law_is_at_no_distance(law: Tensor) -> None:
    assert (Divergence(0.0).chances(law, law, torch.arange(VOCAB)) == 1).all()


def test_the_likeliest_token_is_in_the_groups_of_others() -> None:
    """0 and 1 are alike: (0.4 + 0.35) / (0.2 + 0.8) for both."""
    target, draft = floats([0.4, 0.35, 0.25, 0, 0, 0]), floats([0.2, 0.8, 0, 0, 0, 0])
    found = Dynamic(VECTORS, reach=1).chances(target, draft, torch.tensor([0, 1]))
    assert found.tolist() == pytest.approx([0.75, 0.75])


def test_limits_that_are_met_are_not_passed() -> None:
    """Typical acceptance asks for more than epsilon; groups have tokens nearer than the limit."""
    law, draft = floats([0.25, 0.75]), floats([0.5, 0.5])
    assert Typical(0.25, 100.0).chances(law, draft, torch.arange(2)).tolist() == [0, 1]
    apart = torch.eye(2, dtype=torch.float64)  # their distance is 2, squared
    for distance, chance in ((2.0, 0.5), (2.5, 1.0)):
        rule = Dynamic(apart, reach=1, gap=1.0, distance=distance)
        assert rule.chances(law, draft, torch.tensor([0])).tolist() == [chance]
