"""The group rule through the real loop on many keyed utterances, and thinning beside it.

n = 20,000 utterances; 8 chi-squares of false-alarm rate 1e-9 each (see `test_exactness`). Seeds
are fixed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
import torch
from goodness import chi_square, mismatches
from group_laws import FAULTS, Cover, TokenResidual, random_cover
from reference import Chain, speculative_law
from rule_laws import COVER
from stubs import speculative
from test_exactness import DRAFT, LAW, MANY, ONE, SAMPLER, STOPS, TARGET

from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules import thinning
from speculative_tts.decoding.rules.group import Group

TRIALS = 4_000
DISJOINT = Cover(6, ((0, 1), (2,), (3, 4), (5,)), (1.0, 1.0, 1.0, 1.0))  # a token tells its group


def group_mismatches(outcomes: list[Outcome]) -> list[str]:
    """Places whose groups, given the tokens before, do not follow the target's law of groups."""
    chain, weights = Chain(TARGET, SAMPLER, STOPS, ONE), DISJOINT.weights()
    group = weights.argmax(0).tolist()
    lines = []
    for place in (1, 2, 3):
        seen: defaultdict[tuple[int, ...], Counter[tuple[int, ...]]] = defaultdict(Counter)
        for tokens in (outcome.tokens for outcome in outcomes if len(outcome.tokens) > place):
            seen[tuple(tokens[:place])][(group[tokens[place]],)] += 1
        for before, counts in sorted(seen.items()):
            law = weights @ torch.tensor(chain.next(before), dtype=torch.float64)
            masses = {(k,): mass for k, mass in enumerate(law.tolist()) if mass > 0}
            statistic, bound = chi_square(counts, masses)
            if statistic > bound:
                lines.append(f"place {place} after {before}: {statistic:.1f} > {bound:.1f}")
    return lines


@pytest.mark.parametrize("lookahead", [1, 3])
def test_emitted_groups_follow_the_targets_law(lookahead: int) -> None:
    """The paper's guarantee end to end: groups are counted, against the target alone.

    After 4, 16 and 64 beginnings, twice: 168 chi-squares of false-alarm rate 1e-9 each. Tokens do
    not follow the target; as a control, a rule that draws by the residual of tokens fails.
    """
    rule, fault = DISJOINT.rule(), DISJOINT.rule(TokenResidual)
    found = speculative(TARGET, DRAFT, rule, STOPS, SAMPLER, lookahead, MANY)
    assert group_mismatches(found) == []
    assert mismatches(found, LAW)  # of tokens
    assert group_mismatches(speculative(TARGET, DRAFT, fault, STOPS, SAMPLER, lookahead, MANY))


@pytest.mark.parametrize("kind", FAULTS.values(), ids=FAULTS.keys())
def test_chi_square_finds_faults(kind: type[Group]) -> None:
    """Negative controls."""
    found = speculative(TARGET, DRAFT, COVER.rule(kind), STOPS, SAMPLER, 2, MANY)
    assert mismatches(found, speculative_law(TARGET, DRAFT, COVER.masses, 2, SAMPLER, STOPS, ONE))


@pytest.mark.parametrize("seed", [1, 5, 8])
def test_thinning_has_the_same_law_and_its_trials(seed: int) -> None:
    """4,000 positions by the paper's loop: the token against `output_law` (false-alarm rate 1e-9),
    the group against Q_c, the mean number of trials against 1 / TV within 6.2 standard errors of a
    geometric variable."""
    generator = torch.Generator().manual_seed(seed)
    cover = random_cover(6, seed)
    q, p = (torch.randn(2, 6, generator=generator).double() * 1.2).softmax(-1)
    rule, groups = cover.rule(), thinning.Groups(cover.members, cover.scores)
    drafted = torch.multinomial(p, TRIALS, replacement=True, generator=generator).tolist()

    def noise() -> float:
        return float(torch.rand((), generator=generator, dtype=torch.float64))

    found = [thinning.emit(groups, q.tolist(), p.tolist(), x, noise) for x in drafted]
    for name, law in (("token", rule.output_law(q, p)), ("group", cover.weights() @ q)):
        counts = Counter((getattr(e, name),) for e in found)
        statistic, bound = chi_square(counts, {(x,): m for x, m in enumerate(law.tolist()) if m})
        assert statistic < bound, name
    accepted = sum(e.accepted for e in found) / TRIALS
    rate = float(rule.acceptance_probability(q, p))
    assert abs(accepted - rate) < 6.2 * (rate * (1 - rate) / TRIALS) ** 0.5 + 1e-9
    trials = [e.trials for e in found if not e.accepted]
    if rate < 0.99:
        expected = float(rule.expected_trials(q, p))
        error = (expected * (expected - 1) / len(trials)) ** 0.5
        assert abs(sum(trials) / len(trials) - expected) < 6.2 * error + 1e-9


def test_thinning_accepts_what_the_fast_rule_accepts() -> None:
    """The same uniforms, the same decisions."""
    generator = torch.Generator().manual_seed(0)
    for seed in range(100):
        cover = random_cover(6, seed)
        q, p = torch.randn(2, 6, generator=generator).double().softmax(-1)
        uniforms = torch.rand(1, 6, 2, generator=generator).double()
        tokens = torch.arange(6)[None]
        wide = [x.expand(1, 6, -1) for x in (q, p)]
        fast = cover.rule().accept(*wide, tokens, uniforms)[0].tolist()
        groups = thinning.Groups(cover.members, cover.scores)
        for token in range(6):
            rest = iter([uniforms[0, token, 1].item(), uniforms[0, token, 0].item()])

            def noise(rest: Iterator[float] = rest) -> float:
                return next(rest, float(torch.rand((), generator=generator)))

            slow = thinning.emit(groups, q.tolist(), p.tolist(), token, noise)
            assert slow.accepted == fast[token]
            assert (slow.trials == 0) == slow.accepted


def test_thinning_takes_nothing_impossible_at_the_smallest_uniforms() -> None:
    """Of three tokens alone the drafted one is impossible, and the next as likely in both laws."""
    noise = iter([0, 0, 0, 0, 0, 0.9, 0, 0, 0]).__next__
    alone = thinning.Groups([[0], [1], [2]], [1, 1, 1])
    found = thinning.emit(alone, [0, 0.5, 0.5], [0.5, 0.5, 0], 0, noise)
    assert found == thinning.Emission(2, 2, accepted=False, trials=2)
