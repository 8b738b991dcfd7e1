"""Rules by algebra: what they do, against the papers' formulas in plain floats, and invariances."""

import pytest
import torch
from drawn_laws import drawn_laws
from hypothesis import given
from hypothesis import strategies as st
from rule_laws import CASES, NEAREST, RELAXED, VECTORS, ByChance, shipped_rules, tolerance
from torch import Tensor

from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.relaxed import Divergence, Dynamic, Neighbours, Typical

TIGHT = 1e-12
VOCAB = len(NEAREST)
seeds = st.integers(0, 2**31)
BY_CHANCE = {
    f"{name} {n}": case
    for name, some in {**CASES, "other": [tolerance(0.05), tolerance(3.0)]}.items()
    for n, case in enumerate(some)
    if isinstance(case, ByChance)
}
cases = pytest.mark.parametrize("case", BY_CHANCE.values(), ids=BY_CHANCE)
# Shares of 60, so that ties are frequent and sums do not hang on the order of additions.
shares = st.lists(st.sampled_from([0, 0, 1, 2, 3, 7, 12]), min_size=VOCAB, max_size=VOCAB)
laws = shares.map(lambda parts: floats([*parts[:-1], 60 - sum(parts[:-1])]) / 60)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Draw three target and draft laws of up to twelve tokens, with tiny probabilities."""
    return drawn_laws(draw, 3, draw(st.integers(2, 12)))


def floats(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("name", shipped_rules())
@given(laws, laws)
def test_closed_forms_are_the_papers(name: str, target: Tensor, draft: Tensor) -> None:
    """Of every rule of the registry: one without a case in `rule_laws` fails."""
    for case in CASES[name]:
        accepted, drawn = case.masses(target.tolist(), draft.tolist())
        found, passed = (
            of(target, draft) for of in (case.rule.output_law, case.rule.acceptance_probability)
        )
        torch.testing.assert_close(found, floats(accepted) + floats(drawn), atol=TIGHT, rtol=0)
        torch.testing.assert_close(found.sum(), torch.tensor(1.0).double(), atol=TIGHT, rtol=0)
        assert float(passed) == pytest.approx(sum(accepted), abs=TIGHT)


@cases
@given(laws, laws, st.floats(0, 1, exclude_max=True))
def test_verification_is_the_papers(
    case: ByChance, target: Tensor, draft: Tensor, u: float
) -> None:
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
    case: ByChance, target: Tensor, draft: Tensor
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
def test_nothing_drafted_is_drawn_from_the_target(case: ByChance, target: Tensor) -> None:
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
@given(st.integers(1, 5), st.integers(0, 4), seeds)
def test_a_batch_is_its_rows(case: ByChance, rows: int, lookahead: int, seed: int) -> None:
    """Bit for bit, with ragged drafts; 1 <= accepted + 1 <= drafted + 1."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(rows, lookahead + 1, VOCAB, generator=generator).softmax(-1)
    draft = (3 * torch.rand(rows, lookahead, VOCAB, generator=generator)).softmax(-1)
    drafted = torch.randint(0, VOCAB, (rows, lookahead), generator=generator)
    lengths = torch.randint(0, lookahead + 1, (rows,), generator=generator)
    uniforms = torch.rand(rows, lookahead, 2, generator=generator).double()
    inputs = (target, draft, drafted, lengths, uniforms)
    whole = case.rule.judge(*inputs)
    assert (whole.accepted <= lengths).all()
    assert (whole.accepted >= 0).all()
    for row in range(rows):
        single = case.rule.judge(*(x[row : row + 1] for x in inputs))
        assert torch.equal(single.accepted[0], whole.accepted[row])
        assert torch.equal(single.next_probs[0], whole.next_probs[row])
        cut = int(lengths[row])  # what lies behind the row's drafts does not matter
        alone = case.rule.judge(
            target[row : row + 1, : cut + 1],
            draft[row : row + 1, :cut],
            drafted[row : row + 1, :cut],
            lengths[row : row + 1],
            uniforms[row : row + 1, :cut],
        )
        assert torch.equal(alone.next_probs[0], whole.next_probs[row])


@cases
@given(st.lists(st.tuples(laws, laws), min_size=2, max_size=4))
def test_laws_of_a_batch_are_those_of_its_rows(
    case: ByChance, pairs: list[tuple[Tensor, Tensor]]
) -> None:
    """Also where other tokens are impossible in each row."""
    target, draft = (torch.stack(one) for one in zip(*pairs, strict=True))
    found = case.rule.output_law(target, draft)
    for row, (q, p) in enumerate(pairs):
        assert torch.equal(case.rule.output_law(q, p), found[row])


@cases
def test_no_rows_have_no_chances(case: ByChance) -> None:
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


@given(drawn(), seeds)
def test_acceptance_grows_with_beta(pair: tuple[Tensor, Tensor], seed: int) -> None:
    """For the same uniforms a larger tolerance accepts whatever a smaller one does."""
    drafted, uniforms = drafts(pair[1], 50, seed)
    target, draft = (x[:, None].expand(-1, 50, -1) for x in pair)
    accepted = torch.zeros_like(drafted, dtype=torch.bool)
    for beta in (0.0, 0.1, 0.3, 1.0):
        now = Tolerance(beta).accept(target, draft, drafted, uniforms)
        assert (now | ~accepted).all()
        accepted = now
    assert accepted.all()  # beta 1 accepts everything


@given(drawn(), seeds)
def test_equal_laws_accept_everything(pair: tuple[Tensor, Tensor], seed: int) -> None:
    law = pair[0]
    drafted, uniforms = drafts(law, 50, seed)
    spread = law[:, None].expand(-1, 50, -1)
    assert Tolerance(0.0).accept(spread, spread, drafted, uniforms).all()


@given(drawn(), seeds)
def test_exact_rule_never_passes_what_the_target_cannot_say(
    pair: tuple[Tensor, Tensor], seed: int
) -> None:
    """Neither accepted, at u = 0 too, nor drawn after a rejection."""
    target, draft = pair
    drafted, uniforms = drafts(draft, 50, seed)
    uniforms[:, ::2] = 0.0
    spread = target[:, None].expand(-1, 50, -1)
    passed = Tolerance(0.0).accept(spread, draft[:, None].expand(-1, 50, -1), drafted, uniforms)
    assert (target.gather(1, drafted)[passed] > 0).all()
    assert (Tolerance(0.0).residual(target, draft)[target == 0] == 0).all()


@given(drawn(), st.sampled_from([0.0, 0.05, 0.4, 1.0, 3.0]), seeds)
def test_renaming_tokens_renames_the_outcome(
    pair: tuple[Tensor, Tensor], beta: float, seed: int
) -> None:
    rule, (target, draft) = Tolerance(beta), pair
    order = torch.randperm(target.shape[1], generator=torch.Generator().manual_seed(seed))
    names = order.argsort()  # token x is called names[x]
    drafted, uniforms = drafts(draft, 1, seed)
    one = rule.judge(*spread(target, draft), drafted, torch.ones(3).long(), uniforms)
    renamed = spread(target[:, order], draft[:, order])
    other = rule.judge(*renamed, names[drafted], torch.ones(3).long(), uniforms)
    assert torch.equal(one.accepted, other.accepted)
    torch.testing.assert_close(one.next_probs[:, order], other.next_probs, atol=TIGHT, rtol=0)
    law = rule.output_law(target, draft)[:, order]
    again = rule.output_law(target[:, order], draft[:, order])
    torch.testing.assert_close(law, again, atol=TIGHT, rtol=0)


def test_full_acceptance_draws_from_the_target_behind_the_draft() -> None:
    laws_ = torch.eye(4)[None, :3]  # the target says 0, 1, 2
    drafted = torch.tensor([[0, 1]])
    verdict = Tolerance(0.0).judge(
        laws_, laws_[:, :2], drafted, torch.tensor([2]), torch.zeros(1, 2, 2).double()
    )
    assert verdict.accepted.tolist() == [2]
    assert verdict.next_probs.tolist() == [[0.0, 0.0, 1.0, 0.0]]


@pytest.mark.parametrize("beta", [0.0, 0.4])
def test_one_hots_and_empty_rows_give_no_nan(beta: float) -> None:
    rule, hot = Tolerance(beta), torch.eye(3, dtype=torch.float64)
    zero = torch.zeros(3, dtype=torch.float64)
    for target in hot:
        for draft in (*hot, zero):
            assert torch.isfinite(rule.output_law(target, draft)).all()
            assert torch.isfinite(rule.residual(target, draft)).all()
        assert torch.equal(rule.residual(target, zero), target)  # the bonus token
        assert torch.equal(rule.output_law(target, zero), target)
        assert rule.acceptance_probability(target, zero) == 0


def test_residual_without_mass_is_the_target_and_counted() -> None:
    """Rounding can reject where q <= p everywhere; never token 0, never NaN."""
    target = torch.tensor([[[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]]])
    draft = torch.tensor([[[0.25, 0.3, 0.5]]])  # sums to more than one, as rounding may
    uniforms = torch.tensor([[[0.99, 0.0]]], dtype=torch.float64)
    verdict = Tolerance(0.0).judge(target, draft, torch.tensor([[1]]), torch.tensor([1]), uniforms)
    assert verdict.accepted.tolist() == [0]
    assert verdict.fallback.tolist() == [True]
    assert torch.equal(verdict.next_probs, target[:, 0])


def test_a_negative_tolerance_is_refused() -> None:
    for beta in (-0.1, float("nan")):
        with pytest.raises(ValueError, match=r"beta .* 0 is exact speculation"):
            Tolerance(beta)


def drafts(draft: Tensor, number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Tokens drawn from each row's law [rows, number], and uniforms [rows, number, 2]."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.multinomial(draft, number, replacement=True, generator=generator)
    return tokens, torch.rand(len(draft), number, 2, generator=generator).double()


def spread(target: Tensor, draft: Tensor) -> tuple[Tensor, Tensor]:
    """Laws of one position as the inputs of `verify` with one drafted token."""
    return target[:, None].expand(-1, 2, -1), draft[:, None]
