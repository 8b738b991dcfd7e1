"""The group rule by algebra: what its methods do, against the paper's formulas."""

import itertools

import pytest
import torch
from drawn_laws import LAST, drawn_laws, threshold
from group_laws import Cover, parts, random_cover, singletons
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from speculative_tts.decoding.rules import group as groups
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.rules.group import Group

TIGHT = 1e-12
Problem = tuple[Cover, Tensor, Tensor]
seeds = st.integers(0, 2**31)
both_ways = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True, params=[0, 10**9], ids=["possible tokens", "all tokens"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs both ways of summing over groups."""
    monkeypatch.setattr(groups, "FEW", request.param)


@st.composite
def problems(draw: st.DrawFn, rows: int = 3) -> Problem:
    """A cover, and target and draft laws [rows, vocab] in float64 with zeros, one-hots and ties."""
    vocab = draw(st.integers(2, 8))
    cover = random_cover(vocab, draw(seeds), equal=draw(st.booleans()))
    return cover, *drawn_laws(draw, rows, vocab)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=TIGHT, rtol=0)


def test_a_uniform_of_0_draws_the_first_group_of_each_token() -> None:
    """Never the last group of the token before, whose share ends there."""
    cover = Cover(4, ((0, 1, 3), (1, 2), (2, 3)), (1.0, 1.0, 1.0))
    groups = cover.rule().draw_group(torch.arange(4), torch.zeros(4).double())
    assert groups.tolist() == [0, 0, 1, 0]
    last = cover.rule().draw_group(torch.arange(4), torch.full((4,), LAST).double())
    assert last.tolist() == [0, 1, 2, 2]


def passing_mass(rule: Group, cover: Cover, q: Tensor, p: Tensor) -> Tensor:
    """Mass [groups, vocab] of (group, token) that `accept` lets pass: its boolean bisected over u,
    for a uniform in the middle of each group's share of each token."""
    weights = cover.weights()
    mass = torch.zeros_like(weights)
    for token in range(cover.vocab):
        edges = torch.cat([torch.zeros(1).double(), weights[:, token].cumsum(0)])
        for group in weights[:, token].nonzero()[:, 0].tolist():
            middle = float(edges[group] + edges[group + 1]) / 2
            assert int(rule.draw_group(torch.tensor([token]), torch.tensor([middle]))) == group
            if p[token] > 0:
                chance = chance_of(rule, q, p, token, middle)
                mass[group, token] = weights[group, token] * chance * p[token]
    return mass


def chance_of(rule: Group, q: Tensor, p: Tensor, token: int, auxiliary: float) -> float:
    def passes(u: float) -> bool:
        uniforms = torch.tensor([[[u, auxiliary]]], dtype=torch.float64)
        return bool(rule.accept(q[None, None], p[None, None], torch.tensor([[token]]), uniforms))

    return threshold(passes)


@both_ways
@given(problems(rows=1))
def test_the_emitted_group_follows_the_targets_coarse_law(problem: Problem) -> None:
    """Accepted groups from `accept`; after a rejection the group has the residual's law."""
    cover, (q,), (p,) = problem
    rule, weights = cover.rule(), cover.weights()
    accepted = passing_mass(rule, cover, q, p)
    q_c, p_c = weights @ q, weights @ p
    residual = (q_c - p_c).clamp(min=0)
    close(1 - accepted.sum(), residual.sum())
    close(accepted.sum(-1) + residual, q_c)
    joint = torch.where(q_c > 0, residual / q_c, 0.0)[:, None] * weights * q  # group and its token
    close(joint.sum(-1), residual)
    close(rule.residual(q, p), joint.sum(0))
    close(rule.coarse(q), q_c)


@both_ways
@given(problems())
def test_closed_forms_equal_the_papers_formulas(problem: Problem) -> None:
    cover, target, draft = problem
    rule, weights = cover.rule(), cover.weights()
    for row, (q, p) in enumerate(zip(target, draft, strict=True)):
        accepted, drawn = parts(weights, q, p)
        close(rule.residual(target, draft)[row], drawn)
        close(rule.output_law(target, draft)[row], accepted + drawn)
        close(rule.acceptance_probability(target, draft)[row], accepted.sum())
    close(rule.output_law(target, draft).sum(-1), torch.ones(3).double())


@both_ways
@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 3), seeds)
def test_singleton_groups_are_the_exact_rule_bit_for_bit(
    vocab: int, rows: int, lookahead: int, seed: int
) -> None:
    """In float32, for the same uniforms, through the real `verify`; whatever the scores."""
    generator = torch.Generator().manual_seed(seed)
    inputs = verification(generator, vocab, rows, lookahead)
    scores = tuple((torch.rand(vocab, generator=generator) + 0.1).tolist())
    for cover in (singletons(vocab), Cover(vocab, singletons(vocab).members, scores)):
        ours, exact = cover.rule().judge(*inputs), Tolerance(0.0).judge(*inputs)
        for name in ("accepted", "next_probs", "fallback"):
            assert torch.equal(getattr(ours, name), getattr(exact, name)), name


@both_ways
@given(problems(), seeds)
def test_equal_laws_accept_everything(problem: Problem, seed: int) -> None:
    cover, law, _ = problem
    generator = torch.Generator().manual_seed(seed)
    drafted = torch.multinomial(law, 20, replacement=True, generator=generator)
    wide = law[:, None].expand(-1, 20, -1)
    uniforms = torch.rand(3, 20, 2, generator=generator).double()
    assert cover.rule().accept(wide, wide, drafted, uniforms).all()


@both_ways
@given(problems())
def test_where_nothing_was_drafted_the_target_is_next(problem: Problem) -> None:
    """Bit for bit: the bonus token; also beside rows that were rejected."""
    cover, target, draft = problem
    rule, draft = cover.rule(), draft.clone()
    draft[1] = 0
    for law in (rule.residual(target, draft), rule.output_law(target, draft)):
        assert torch.equal(law[1], target[1])
        assert torch.isfinite(law).all()
    assert torch.equal(rule.residual(target, 0 * draft), target)
    assert float(rule.acceptance_probability(target, draft)[1]) == 0


@pytest.mark.parametrize("seed", range(5))
def test_one_hots_give_no_nan(seed: int) -> None:
    rule, hot = random_cover(4, seed).rule(), torch.eye(4)
    for target, draft in itertools.product(hot, hot):
        law = rule.output_law(target, draft)
        torch.testing.assert_close(law.sum(), torch.tensor(1.0))
        assert torch.isfinite(rule.residual(target, draft)).all()
        assert (rule.residual(target, draft)[target == 0] == 0).all()


@both_ways
@given(st.integers(1, 5), st.integers(0, 4), seeds)
def test_a_batch_is_its_rows(rows: int, lookahead: int, seed: int) -> None:
    """Bit for bit in float32, with ragged drafts."""
    generator = torch.Generator().manual_seed(seed)
    rule = random_cover(40, seed, equal=seed % 2 == 0).rule()
    inputs = verification(generator, 40, rows, lookahead)
    whole = rule.judge(*inputs)
    for row in range(rows):
        single = rule.judge(*(x[row : row + 1] for x in inputs))
        assert torch.equal(single.accepted[0], whole.accepted[row])
        assert torch.equal(single.next_probs[0], whole.next_probs[row])


@given(st.integers(2, 6), seeds)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_batch_of_rows_that_go_different_ways_is_its_rows(rows: int, seed: int) -> None:
    """Every other row has two possible tokens of 40, the rest all."""
    generator = torch.Generator().manual_seed(seed)
    rule = random_cover(40, seed).rule()
    logits = torch.randn(2, rows, 40, generator=generator)
    logits[:, ::2, 2:] = -1e9
    target, draft = logits.softmax(-1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "FEW", 16)
        whole = rule.residual(target, draft)
        for row in range(rows):
            assert torch.equal(rule.residual(target[row], draft[row]), whole[row])


@both_ways
@given(problems(rows=1))
def test_groups_never_accept_less_than_tokens(problem: Problem) -> None:
    """One group of all accepts everything; any cover accepts at least what the exact rule does."""
    cover, q, p = problem
    exact = Tolerance(0.0).acceptance_probability(q, p)
    everything = Cover(cover.vocab, (tuple(range(cover.vocab)),), (1.0,)).rule()
    assert float(cover.rule().acceptance_probability(q, p)) >= float(exact) - TIGHT
    assert float(everything.acceptance_probability(q, p)) == pytest.approx(1, abs=TIGHT)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token_offsets": torch.tensor([0, 0, 2]).int()}, "belongs to no group"),
        ({"group_offsets": torch.tensor([0, 0, 2]).int()}, "a group has no token"),
        ({"token_groups": torch.zeros(3).int()}, "differ"),
        ({"scores": torch.tensor([1.0, 0.0])}, "2 positive numbers"),
        ({"scores": torch.tensor([1.0])}, "2 positive numbers"),
    ],
)
def test_what_is_no_cover_is_refused(change: dict[str, Tensor], message: str) -> None:
    two = {
        "token_offsets": torch.tensor([0, 1, 2]).int(),
        "token_groups": torch.tensor([0, 1]).int(),
        "group_offsets": torch.tensor([0, 1, 2]).int(),
        "group_tokens": torch.tensor([0, 1]).int(),
    }
    Group(**two)
    with pytest.raises(ValueError, match=message):
        Group(**(two | change))


def verification(
    generator: torch.Generator, vocab: int, rows: int, lookahead: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Inputs of `verify` in float32, a third of the tokens impossible, drafts ragged."""
    logits = 3 * torch.randn(2, rows, lookahead + 1, vocab, generator=generator)
    logits[torch.rand(logits.shape, generator=generator) < 0.3] = -1e9
    target, draft = logits.softmax(-1)
    drafted = torch.randint(0, vocab, (rows, lookahead), generator=generator)
    lengths = torch.randint(0, lookahead + 1, (rows,), generator=generator)
    uniforms = torch.rand(rows, lookahead, 2, generator=generator).double()
    return target, draft[:, :lookahead], drafted, lengths, uniforms
