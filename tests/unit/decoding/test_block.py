"""Block verification by enumeration: all drafts, all stopping places, no sampling noise."""

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import pytest
import torch
from group_laws import Cover, random_cover, singletons
from reference import Chain, Law
from stubs import Markov, request
from test_enumeration import distance
from torch import Tensor

from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.rules.block import BlockRule
from speculative_tts.decoding.sampling.sampler import Sampler

VOCAB = 4
TARGET = Markov.random(VOCAB, 0, scale=0.8, dtype=torch.float64).without(0)
DRAFT = Markov.random(VOCAB, 0, scale=0.8, dtype=torch.float64).near(1, 1.0)
OVERLAPPING = Cover(VOCAB, ((0, 1), (1, 3), (2,)), (1.0, 2.5, 1.0))
DISJOINT = Cover(VOCAB, ((0, 1, 3), (2,)), (1.0, 1.0))
NEVER, TIGHT = 1 - 2.0**-53, 1e-12
Tokens = tuple[int, ...]


class DraftNotWeighed(BlockRule):
    """The residual of the token rule, after acceptance by blocks."""

    def residual(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return super().residual(
            target_probs, draft_probs / draft_probs.sum(-1, keepdim=True).clamp(min=1e-9)
        )


class LastAsOthers(BlockRule):
    """The token before the bonus is weighed as if something were drafted behind it."""

    def chances(self, *given: Tensor) -> tuple[Tensor, Tensor]:
        weights, chances = super().chances(*given)
        return weights, chances.clamp(max=0.5)


TARGET_CHAIN, DRAFT_CHAIN = (
    Chain(model, Sampler(), (), request(maximum=9)) for model in (TARGET, DRAFT)
)


def laws(chain: Chain, tokens: Tokens, number: int) -> Tensor:
    """Laws of the first `number` tokens along some."""
    return torch.tensor([[chain.next(tokens[:i]) for i in range(number)]], dtype=torch.float64)


def drafts(cover: Cover, number: int) -> Iterator[tuple[Tokens, Tensor, float]]:
    """Every draft with every choice of groups: tokens, auxiliary uniforms, probability."""
    weights = cover.weights()
    upper = weights.cumsum(0)
    for tokens in product(range(VOCAB), repeat=number):
        chance = 1.0
        for place, token in enumerate(tokens):
            chance *= DRAFT_CHAIN.next(tokens[:place])[token]
        groups = [[k for k in range(len(weights)) if weights[k, x] > 0] for x in tokens]
        for chosen in product(*groups):
            own = [float(weights[k, x]) for k, x in zip(chosen, tokens, strict=True)]
            ends = [float(upper[k, x]) for k, x in zip(chosen, tokens, strict=True)]
            middle = [end - mass / 2 for end, mass in zip(ends, own, strict=True)]
            yield tokens, torch.tensor([middle], dtype=torch.float64), chance * math.prod(own)


def stops(
    block: BlockRule, tokens: Tokens, auxiliary: Tensor, length: int
) -> Iterator[tuple[int, float, Tensor]]:
    """Accepted length, its probability, law of the token behind it, by `judge` itself."""
    number = len(tokens)
    given = (
        laws(TARGET_CHAIN, tokens, number + 1),
        laws(DRAFT_CHAIN, tokens, number),
        torch.tensor([tokens]),
    )
    lengths = torch.tensor([length])
    _, chances = block.chances(*given, lengths, auxiliary)
    left = 1.0
    for accepted in range(length, -1, -1):
        chance = float(chances[0, accepted - 1]) if accepted else 1.0
        uniform = torch.full((1, number), NEVER, dtype=torch.float64)
        if accepted:
            uniform[0, accepted - 1] = max(chance - 1e-9, 0.0)
        verdict = block.judge(*given, lengths, torch.stack([uniform, auxiliary], -1))
        if left * chance > TIGHT:
            assert int(verdict.accepted) == accepted or chance > 1 - 1e-9
            yield accepted, left * chance, verdict.next_probs[0]
        left *= 1 - chance


def emitted(block: BlockRule, cover: Cover, number: int, *, cut: bool = False) -> Law:
    """Law of number + 1 tokens: accepted, the next, and the target's where the round was shorter.

    With `cut` drafting stops behind a token 1, as behind a stop id.
    """
    law: defaultdict[Tokens, float] = defaultdict(float)
    for tokens, auxiliary, chance in drafts(cover, number):
        length = tokens.index(1) + 1 if cut and 1 in tokens else number
        for accepted, share, behind in stops(block, tokens, auxiliary, length):
            for token, own in enumerate(behind.tolist()):
                for whole, rest in longer((*tokens[:accepted], token), number + 1):
                    law[whole] += chance * share * own * rest
    return dict(law)


def longer(tokens: Tokens, number: int) -> Iterator[tuple[Tokens, float]]:
    """What the target goes on with, up to `number` tokens in all."""
    if len(tokens) == number:
        yield tokens, 1.0
        return
    for token, chance in enumerate(TARGET_CHAIN.next(tokens)):
        for whole, rest in longer((*tokens, token), number):
            yield whole, chance * rest


def target_law(number: int) -> Law:
    return dict(longer((), number))


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_tokens_follow_the_target(number: int, *, cut: bool) -> None:
    law = emitted(BlockRule(), singletons(VOCAB), number, cut=cut)
    assert distance(law, target_law(number + 1)) < TIGHT


@pytest.mark.parametrize("number", [1, 2, 3])
def test_singleton_groups_are_tokens(number: int) -> None:
    cover = singletons(VOCAB)
    assert distance(emitted(BlockRule(cover.rule()), cover, number), target_law(number + 1)) < TIGHT


@pytest.mark.parametrize("fault", [DraftNotWeighed, LastAsOthers])
def test_enumeration_finds_faults(fault: type[BlockRule]) -> None:
    """Negative controls."""
    assert distance(emitted(fault(), singletons(VOCAB), 3), target_law(4)) > 1e-3


@pytest.mark.parametrize("number", [1, 2, 3])
def test_groups_follow_the_targets_given_all_tokens_before(number: int) -> None:
    """With disjoint groups a token tells its group. Tokens themselves do not follow (control)."""
    law = emitted(BlockRule(DISJOINT.rule()), DISJOINT, number)
    for place in range(number + 1):
        masses = defaultdict[Tokens, Tensor](lambda: torch.zeros(VOCAB, dtype=torch.float64))
        for tokens, mass in law.items():
            masses[tokens[:place]][tokens[place]] += mass
        for before, own in masses.items():
            wanted = DISJOINT.weights() @ torch.tensor(
                TARGET_CHAIN.next(before), dtype=torch.float64
            )
            found = DISJOINT.weights() @ own / own.sum()
            torch.testing.assert_close(found, wanted, atol=TIGHT, rtol=0)
    assert distance(law, target_law(number + 1)) > 1e-3


@pytest.mark.parametrize("cover", [OVERLAPPING, DISJOINT], ids=["overlapping", "disjoint"])
def test_a_positions_law_is_the_rules_of_the_weighed_draft(cover: Cover) -> None:
    """What `Verdict.weights` says: of the second token, given that the first is accepted."""
    block = BlockRule(cover.rule())
    q, p = (laws(chain, (1, 3), 2)[0] for chain in (TARGET_CHAIN, DRAFT_CHAIN))
    for group, share in enumerate(cover.weights()[:, 1].tolist()):
        if not share:
            continue
        first = float(cover.weights()[:group, 1].sum()) + share / 2
        own = torch.zeros(VOCAB, dtype=torch.float64)
        for tokens, auxiliary, _ in drafts(cover, 2):
            if tokens[0] != 1 or abs(float(auxiliary[0, 0]) - first) > TIGHT:
                continue
            second = _share(cover, tokens[1], float(auxiliary[0, 1])) * float(p[1, tokens[1]])
            for accepted, mass, behind in stops(block, tokens, auxiliary, 2):
                if accepted == 1:
                    own += second * mass * behind
                elif accepted == 2:
                    own[tokens[1]] += second * mass
        given = (
            laws(TARGET_CHAIN, (1, 3), 3),
            laws(DRAFT_CHAIN, (1, 3), 2),
            torch.tensor([[1, 3]]),
        )
        weights, _ = block.chances(*given, torch.tensor([2]), torch.tensor([[first, 0.5]]).double())
        assert float(own.sum()) == pytest.approx(float(weights[0, 1]), abs=TIGHT)
        wanted = block.output_law(q[1:], p[1:] / weights[0, 1])[0]
        torch.testing.assert_close(own / own.sum(), wanted, atol=TIGHT, rtol=0)


def _share(cover: Cover, token: int, uniform: float) -> float:
    """Weight of the group that a uniform chooses."""
    upper = cover.weights()[:, token].cumsum(0)
    return float(cover.weights()[int((upper <= uniform).sum()), token])


@pytest.mark.parametrize("cover", [singletons(VOCAB), OVERLAPPING], ids=["tokens", "groups"])
def test_each_draft_is_accepted_at_least_as_far_as_one_by_one(cover: Cover) -> None:
    """P_i against prod min(r, 1), of every draft; and truly further in the mean."""
    block, gained = BlockRule(cover.rule()), 0.0
    for tokens, auxiliary, chance in drafts(cover, 3):
        given = (
            laws(TARGET_CHAIN, tokens, 4),
            laws(DRAFT_CHAIN, tokens, 3),
            torch.tensor([tokens]),
        )
        weights, _ = block.chances(*given, torch.tensor([3]), auxiliary)
        ratios = block.ratios(given[0][:, :3], given[1], given[2], auxiliary)
        alone = ratios.clamp(max=1).cumprod(1)
        assert (weights[:, 1:] >= alone - TIGHT).all()
        gained += chance * float((weights[:, 1:] - alone).sum())
    assert gained > 0.01


def test_a_block_of_one_is_the_token_rule() -> None:
    generator = torch.Generator().manual_seed(0)
    q, p = torch.rand(2, 500, 2, 5, generator=generator, dtype=torch.float64).softmax(-1)
    drafted = torch.randint(5, (500, 1), generator=generator)
    uniforms = torch.rand(500, 1, 2, generator=generator, dtype=torch.float64)
    given = (q, p[:, :1], drafted, torch.ones(500, dtype=torch.int64), uniforms)
    one, other = (rule.judge(*given) for rule in (BlockRule(), Tolerance(0.0)))
    assert one.accepted.equal(other.accepted)
    torch.testing.assert_close(one.next_probs, other.next_probs)


def test_one_position_of_several_rows_is_judged_where_it_lies() -> None:
    """Of two drafted tokens the first alone has a residual: a slice, which few tokens of a sampler
    with top-k are sought in. It was a crash, where a batch came to its end."""
    rule, generator = random_cover(64, 0).rule(), torch.Generator().manual_seed(1)
    laws = torch.zeros(2, 3, 3, 64)
    laws[..., :4] = torch.rand(2, 3, 3, 4, generator=generator)
    q, p = laws / laws.sum(-1, keepdim=True)
    q, p = q[:, 1:2], p[:, 1:2]
    assert not q.is_contiguous()
    assert torch.equal(rule.residual(q, p), rule.residual(q.contiguous(), p.contiguous()))
