"""The small steps of rounds, one at a time: sizes, rooms, who has seen what, weights of blocks."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from stubs import CPU, Markov, request
from torch import Tensor

from speculative_tts.decoding.batch import SMALLEST, BatchState, Size
from speculative_tts.decoding.drafters.drafter import most, room
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.observer import Observer
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Round
from speculative_tts.decoding.rules.acceptance import Tolerance, Verdict
from speculative_tts.decoding.rules.block import BlockRule
from speculative_tts.decoding.sampling.randomness import DRAWS, uniforms
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.host import fixed

VOCAB, STOP = 5, 4


def state(counts: list[int], *, again: int = 0, minimum: int = 0) -> BatchState:
    """Rows of so many tokens, at most 6."""
    rows = [request(f"r{n}", maximum=6, minimum=minimum) for n in range(len(counts))]
    found = BatchState(Size.of(rows, 2), (STOP,), VOCAB, CPU, again)
    found.load(rows)
    found.count.copy_(torch.tensor(counts))
    return found


@pytest.mark.parametrize(
    ("positions", "longest"), [(1, 256), (256, 256), (257, 512), (512, 512), (513, 1024)]
)
def test_buckets_are_powers_of_two(positions: int, longest: int) -> None:
    assert Size(3, positions, 9).bucket() == Size(3, longest, longest)
    assert SMALLEST == 256


def test_a_batch_holds_its_longest_row_and_what_is_drafted() -> None:
    """A short text behind a long prompt made room for a long text behind it."""
    short, long = request("a", maximum=9, start=(0,) * 2), request("b", maximum=4, start=(0,) * 7)
    assert Size.of([short, long], 2) == Size(2, max(2 + 9, 7 + 4) + 3, 12)
    assert Size.of([short, replace(long, max_tokens=6)], 2) == Size(2, 7 + 6 + 3, 12)
    drafted = replace(short, draft_prompt=torch.zeros(11, 1))
    assert Size.of([drafted, long], 0) == Size(2, 11 + 10, 10)


def test_rounds_of_their_own_uniforms() -> None:
    """Keyed by where a round begins; the last draw, the round's own token, stays."""
    rows, capacity = state([0, 3], again=2), 9
    own = uniforms([(0, "r0"), (0, "r1")], capacity, device=CPU)
    fresh = uniforms([(0, "r0\0again"), (0, "r1\0again")], capacity * 2, device=CPU)
    fresh = fresh.view(2, capacity, 2, DRAWS)
    assert torch.equal(rows.uniforms, own)
    rows.renew()
    expected = own.clone()
    for row, begin in ((0, 0), (1, 3)):
        expected[row, begin : begin + 2, :-1] = fresh[row, begin, :, :-1]
    assert torch.equal(rows.uniforms, expected)
    assert state([0]).stop.minimum.tolist() == [0]
    plain = state([1, 1])
    plain.renew()
    assert torch.equal(plain.uniforms, own)
    assert plain.again.numel() == 0
    assert BatchState(Size(2, 5, 5), (STOP,), VOCAB, CPU).stop.minimum.tolist() == [0, 0]


def test_room_is_what_the_token_after_the_drafts_leaves() -> None:
    rows = state([1, 4, 5, 6, 2])
    rows.done[4] = True
    assert room(rows, 3).tolist() == [3, 1, 0, 0, 0]
    assert most(torch.tensor([0, 2, 1]), 3) == 2
    with fixed():
        assert most(torch.tensor([0, 2, 1]), 3) == 3


LAWS = torch.tensor([[[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.1, 0.2, 0.7]]])
DRAFTS = torch.tensor([[[0.8, 0.2, 0.0], [0.2, 0.6, 0.2]]])


def judged(drafted: list[int], length: int, uniform: float) -> Verdict:
    given = torch.full((1, 2, 2), uniform, dtype=torch.float64)
    return BlockRule().judge(LAWS, DRAFTS, torch.tensor([drafted]), torch.tensor([length]), given)


def test_at_a_chance_of_its_own_size_a_block_is_rejected() -> None:
    """And a block of one token is the exact rule's."""
    assert judged([0, 1], 1, 0.625).accepted.tolist() == [0]
    assert judged([0, 1], 1, 0.62).accepted.tolist() == [1]
    assert judged([0, 1], 0, 0.0).accepted.tolist() == [0]
    given = (LAWS[:, 0], DRAFTS[:, 0])
    exact = Tolerance(0.0)
    for name in ("residual", "output_law", "acceptance_probability"):
        assert torch.equal(getattr(BlockRule(), name)(*given), getattr(exact, name)(*given))


def test_where_nothing_is_left_the_next_token_decides() -> None:
    """0 / 0: draft and target agree, so that the whole block passes."""
    same, drafted = LAWS[:, :2], torch.tensor([[1, 2]])
    _, chances = BlockRule().chances(LAWS, same, drafted, torch.tensor([2]), torch.zeros(1, 2))
    assert chances.tolist() == [[1.0, 1.0]]
    narrow = torch.tensor([[[1.0], [1.0]]])
    weights, chances = BlockRule().chances(
        narrow, narrow[:, :1], torch.tensor([[0]]), torch.tensor([1]), torch.zeros(1, 1)
    )
    assert (weights.tolist(), chances.tolist()) == ([[1.0, 1.0]], [[1.0]])


def test_a_round_without_drafts_is_the_targets() -> None:
    nothing = torch.zeros(1, 0, dtype=torch.int64)
    given = (LAWS[:, :1], DRAFTS[:, :0], nothing, torch.tensor([0]), torch.zeros(1, 0, 2))
    verdict = BlockRule().judge(*given)
    assert verdict.accepted.tolist() == [0]
    assert torch.equal(verdict.next_probs, LAWS[:, 0])


EVEN = Markov(torch.zeros(VOCAB, VOCAB, VOCAB)).without(STOP)  # any of four codes: ln 4 nats


@pytest.mark.parametrize(
    ("entropy", "rounds", "drafted"), [(None, 2, 6), (math.log(4), 2, 6), (1.0, 4, 4)]
)
def test_drafting_ends_with_a_token_in_doubt(
    entropy: float | None, rounds: int, drafted: int
) -> None:
    """Of nine tokens the first is the target's; all that is drafted passes, and one more a round.

    A law of so much entropy is in doubt only above the limit.
    """
    made = Speculation(EVEN, LMDrafter(EVEN, entropy), Tolerance(), Sampler(), (STOP,), 3)
    (found,) = made.decode([request(maximum=9)])
    assert (found.counts.rounds, found.counts.drafted) == (rounds, drafted)


class Weighing(Observer):
    def __init__(self) -> None:
        self.weights: list[Tensor | None] = []

    def verified(self, target_probs: Tensor, draft_probs: Tensor, made: Round) -> None:
        self.weights.append(made.weights)


@pytest.mark.parametrize(("rule", "weighs"), [(BlockRule(), True), (Tolerance(), False)])
def test_a_block_rule_weighs_and_its_rounds_have_uniforms_of_their_own(
    rule: Any, weighs: bool
) -> None:
    made = Speculation(EVEN, LMDrafter(EVEN), rule, Sampler(), (STOP,), 2)
    watch = Weighing()
    made.decode([request(maximum=9)], watch)
    assert [one is not None for one in watch.weights] == [weighs] * len(watch.weights)
    one = request(maximum=9)
    loop = made.looping().make(Size.of([one], 2))
    loop.load([one])
    before = loop.rows.uniforms.clone()
    loop.rows.renew()
    assert torch.equal(loop.rows.uniforms, before) is not weighs
