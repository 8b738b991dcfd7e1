"""Acceptance rules by algebra: closed forms, brute-force integration over the uniforms,
invariances.
"""

import pytest
import torch
from drawn_laws import drawn_laws, threshold
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from speculative_tts.decoding.rules.acceptance import Tolerance

TIGHT = 1e-12
betas = st.sampled_from([0.0, 0.05, 0.4, 1.0, 3.0])
seeds = st.integers(0, 2**31)


@st.composite
def laws(draw: st.DrawFn, rows: int = 3) -> tuple[Tensor, Tensor]:
    return drawn_laws(draw, rows, draw(st.integers(2, 12)))


def chance_of(q: float, p: float, beta: float) -> float:
    """Probability that a drafted x passes, found from `accept` alone."""
    rule = Tolerance(beta)

    def passes(u: float) -> bool:
        target, draft = (torch.tensor([[[x, 1 - x]]], dtype=torch.float64) for x in (q, p))
        uniforms = torch.tensor([[[u, 0.0]]], dtype=torch.float64)
        return bool(rule.accept(target, draft, torch.zeros(1, 1, dtype=torch.int64), uniforms))

    return threshold(passes)


@given(laws())
def test_exact_rule_emits_the_targets_law(pair: tuple[Tensor, Tensor]) -> None:
    target, draft = pair
    torch.testing.assert_close(Tolerance(0.0).output_law(target, draft), target, atol=TIGHT, rtol=0)


@given(laws())
def test_exact_acceptance_is_the_overlap(pair: tuple[Tensor, Tensor]) -> None:
    target, draft = pair
    overlap = torch.minimum(target, draft).sum(-1)
    found = Tolerance(0.0).acceptance_probability(target, draft)
    torch.testing.assert_close(found, overlap, atol=TIGHT, rtol=0)


@given(laws(rows=1), betas)
def test_closed_forms_equal_integration_over_the_uniforms(
    pair: tuple[Tensor, Tensor], beta: float
) -> None:
    """output_law and acceptance_probability from what `accept` and `verify` really do."""
    rule, (target, draft) = Tolerance(beta), pair
    q, p = target[0].tolist(), draft[0].tolist()
    vocab = len(q)
    law = torch.zeros(vocab, dtype=torch.float64)
    passed = 0.0
    for x in range(vocab):
        if p[x] == 0:
            continue
        chance = chance_of(q[x], p[x], beta)
        law[x] += p[x] * chance
        passed += p[x] * chance
        if chance < 1:
            after = rule.judge(
                target.expand(2, -1)[None],
                draft[None],
                torch.tensor([[x]]),
                torch.tensor([1]),
                torch.tensor([[[1 - 2**-53, 0.0]]], dtype=torch.float64),
            )
            assert after.accepted.tolist() == [0]
            law += p[x] * (1 - chance) * after.next_probs[0]
    torch.testing.assert_close(rule.output_law(target, draft)[0], law, atol=TIGHT, rtol=0)
    assert float(rule.acceptance_probability(target, draft)) == pytest.approx(passed, abs=TIGHT)


@given(laws(), betas)
def test_laws_are_distributions(pair: tuple[Tensor, Tensor], beta: float) -> None:
    law = Tolerance(beta).output_law(*pair)
    assert (law >= 0).all()
    torch.testing.assert_close(law.sum(-1), torch.ones(3, dtype=torch.float64), atol=TIGHT, rtol=0)


@given(laws(), seeds)
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


@given(laws(), seeds)
def test_equal_laws_accept_everything(pair: tuple[Tensor, Tensor], seed: int) -> None:
    law = pair[0]
    drafted, uniforms = drafts(law, 50, seed)
    spread = law[:, None].expand(-1, 50, -1)
    assert Tolerance(0.0).accept(spread, spread, drafted, uniforms).all()


@given(laws(), seeds)
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


@given(laws(), betas, seeds)
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


@given(st.integers(1, 5), st.integers(0, 4), betas, seeds)
def test_a_batch_is_its_rows(rows: int, lookahead: int, beta: float, seed: int) -> None:
    """Bit for bit, with ragged drafts; 1 <= accepted + 1 <= drafted + 1."""
    generator = torch.Generator().manual_seed(seed)
    vocab, rule = 5, Tolerance(beta)
    target = torch.rand(rows, lookahead + 1, vocab, generator=generator).softmax(-1)
    draft = (3 * torch.rand(rows, lookahead, vocab, generator=generator)).softmax(-1)
    drafted = torch.randint(0, vocab, (rows, lookahead), generator=generator)
    lengths = torch.randint(0, lookahead + 1, (rows,), generator=generator)
    uniforms = torch.rand(rows, lookahead, 2, generator=generator).double()
    inputs = (target, draft, drafted, lengths, uniforms)
    whole = rule.judge(*inputs)
    assert (whole.accepted <= lengths).all()
    assert (whole.accepted >= 0).all()
    for row in range(rows):
        single = rule.judge(*(x[row : row + 1] for x in inputs))
        assert torch.equal(single.accepted[0], whole.accepted[row])
        assert torch.equal(single.next_probs[0], whole.next_probs[row])
        cut = int(lengths[row])  # what lies behind the row's drafts does not matter
        alone = rule.judge(
            target[row : row + 1, : cut + 1],
            draft[row : row + 1, :cut],
            drafted[row : row + 1, :cut],
            lengths[row : row + 1],
            uniforms[row : row + 1, :cut],
        )
        assert torch.equal(alone.next_probs[0], whole.next_probs[row])


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
