"""Instruments: distortion by depth against a direct computation, trials, the clock of sections."""

import math

import pytest
import torch
from group_laws import Cover
from reference import tolerance_masses
from stubs import CPU, Markov, request, speculative
from torch import Tensor

from speculative_tts.decoding.loops.observer import Instruments, Observer
from speculative_tts.decoding.outcome import Round
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler

STOPS, SAMPLER, BETA, LOOKAHEAD = (4,), Sampler(temperature=0.8, top_k=4), 0.3, 3
TARGET = Markov.random(5, 0)
DRAFT = TARGET.near(1, 0.7)
YES, NUMBER = torch.tensor([True]), torch.tensor([1])
ONE = Round(YES, drafted=NUMBER, accepted=NUMBER, fallback=~YES, bare=~YES)
ROWS = [request(f"row {k}", minimum=3, maximum=9 + k % 4) for k in range(30)]


class Ledger(Observer):
    """Keeps what the loop reports."""

    def __init__(self) -> None:
        self.calls: list[tuple[Tensor, Tensor, Tensor]] = []

    def verified(self, target_probs: Tensor, draft_probs: Tensor, made: Round) -> None:
        reached = made.reached(draft_probs.shape[1])
        self.calls.append((target_probs.clone(), draft_probs.clone(), reached))


def run(observer: Observer | None, beta: float = BETA) -> list[tuple[list[int], int]]:
    outs = speculative(TARGET, DRAFT, Tolerance(beta), STOPS, SAMPLER, LOOKAHEAD, ROWS, observer)
    return [(out.tokens, out.counts.rounds) for out in outs]


def test_watching_changes_nothing() -> None:
    tolerance = Tolerance(BETA)
    assert run(None) == run(Ledger()) == run(Instruments(tolerance, LOOKAHEAD, CPU))


def test_positions_reached_are_the_verified_ones_up_to_the_first_rejection() -> None:
    ledger = Ledger()
    outs = speculative(TARGET, DRAFT, Tolerance(BETA), STOPS, SAMPLER, LOOKAHEAD, ROWS, ledger)
    reached = torch.zeros(LOOKAHEAD, dtype=torch.int64)
    for _, _, where in ledger.calls:
        reached[: where.shape[1]] += where.sum(0)
    accepted = torch.tensor([out.counts.accepted_per_position for out in outs]).sum(0)
    rejected = sum(out.counts.residuals for out in outs)
    assert int(reached.sum()) == int(accepted.sum()) + rejected
    assert reached[0] == torch.tensor([out.counts.drafted_per_position for out in outs]).sum(0)[0]


def test_distortion_equals_a_direct_computation() -> None:
    """Total variation and KL(target || emitted) by depth, from verified laws by plain floats."""
    ledger, tools = Ledger(), Instruments(Tolerance(BETA), LOOKAHEAD, CPU)
    run(ledger)
    run(tools)
    tv, kl, positions = [0.0] * LOOKAHEAD, [0.0] * LOOKAHEAD, [0] * LOOKAHEAD
    for target, draft, reached in ledger.calls:
        for row, depth in reached.nonzero().tolist():
            q, p = target[row, depth].tolist(), draft[row, depth].tolist()
            law = [a + b for a, b in zip(*tolerance_masses(BETA, q, p), strict=True)]
            tv[depth] += sum(abs(a - b) for a, b in zip(q, law, strict=True)) / 2
            kl[depth] += sum(a * math.log(a / b) for a, b in zip(q, law, strict=True) if a > 0)
            positions[depth] += 1
    assert tools.positions == positions
    assert tools.sums()["tv"] == pytest.approx(tv, rel=1e-4)
    assert tools.sums()["kl"] == pytest.approx(kl, rel=1e-4)
    assert min(tv) > 0.1


def test_kl_stays_finite_where_the_rule_never_says_what_the_target_could() -> None:
    """The floor of 1e-10 of an emitted probability: KL log(1e10) at most."""
    tools = Instruments(Tolerance(1.0), 1, CPU)
    target, draft = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])
    tools.verified(target, draft, ONE)
    assert (tools.sums()["tv"], tools.positions) == ([1.0], [1])
    assert tools.sums()["kl"] == pytest.approx([math.log(1e10)], rel=1e-5)


def test_an_exact_rule_has_no_distortion() -> None:
    """Summed in float32 it was 1e-8 to 1e-7 a position, above what counts as never emitted."""
    tools = Instruments(Tolerance(0.0), LOOKAHEAD, CPU)
    run(tools, beta=0.0)
    assert min(tools.positions) > 0
    assert max(tools.sums()["tv"]) / tools.positions[0] < 1e-14
    assert max(map(abs, tools.sums()["kl"])) / tools.positions[0] < 1e-14


def test_trials_of_thinning_equal_a_direct_computation() -> None:
    """Only of positions where a rejection is possible, and only of the rule that has trials."""
    cover = Cover(5, ((0, 1, 3), (1, 2), (4,)), (1.0, 1.0, 1.0))
    ledger, tools = Ledger(), Instruments(cover.rule(), LOOKAHEAD, CPU)
    for watch in (ledger, tools):
        speculative(TARGET, DRAFT, cover.rule(), STOPS, SAMPLER, LOOKAHEAD, ROWS, watch)
    rejections, trials = [0.0] * LOOKAHEAD, [0] * LOOKAHEAD
    for target, draft, reached in ledger.calls:
        for row, depth in reached.nonzero().tolist():
            gap = cover.weights() @ (target[row, depth] - draft[row, depth]).double()
            rejections[depth] += float(gap.abs().sum()) / 2
            trials[depth] += 1
    assert tools.sums()["expected_rejections"] == pytest.approx(rejections, rel=1e-4)
    assert tools.sums()["expected_trials"] == trials
    assert sum(trials) / sum(rejections) > 1.5
    same = torch.full((1, 1, 5), 0.2)
    tools.verified(same, same, ONE)
    assert tools.sums()["expected_trials"] == trials
    assert set(Instruments(Tolerance(BETA), LOOKAHEAD, CPU).sums()) == {"tv", "kl"}


def test_a_round_that_drafts_nothing_adds_nothing() -> None:
    """The last one before the maximum length, where only the target's own token fits."""
    cover = Cover(5, ((0, 1, 3), (1, 2), (4,)), (1.0, 1.0, 1.0))
    tools, none = Instruments(cover.rule(), LOOKAHEAD, CPU), torch.zeros(1, 0, 5)
    made = Round(YES, drafted=0 * NUMBER, accepted=0 * NUMBER, fallback=~YES, bare=~YES)
    tools.verified(none, none, made)
    assert sum(tools.positions) == 0


def test_sections_are_clocked() -> None:
    tools = Instruments(Tolerance(0.0), LOOKAHEAD, CPU)
    run(tools)
    assert set(tools.seconds) == {"draft", "verify", "accept"}
    assert all(value > 0 for value in tools.seconds.values())
