"""Drafts looked up in what was said: what is proposed, and the law of whole outputs."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from partition import induced_law
from reference import autoregressive_law
from stubs import CPU, Markov, ragged, request
from test_enumeration import distance
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Request, Size
from speculative_tts.decoding.drafters.lookup import LookupDrafter, LookupDrafting
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler

VOCAB, STOPS = 4, (3,)
TARGET = Markov.random(VOCAB, 1, scale=0.8, dtype=torch.float64)
DRAFTER = LookupDrafter(VOCAB, CPU)


@pytest.mark.parametrize(
    ("heard", "said", "proposed"),
    [
        ((), [7, 8, 9, 1, 7, 8], [9, 1, 7, 8]),
        ((), [5, 6, 1, 6, 2, 5, 6], [1, 6, 2, 5]),  # two tokens match before one does
        ((), [6, 1, 6, 2, 6], [2, 6, 2, 6]),  # of equals the newest; then it repeats itself
        ((), [4, 4], [4, 4, 4, 4]),
        ((), [1, 2, 3], []),
        ((8, 9, 1, 2), [9], [1, 2, 9, 1]),  # in the prompt
        ((7, 8), [9, 7], [8, 9, 7, 8]),  # from the prompt on into the speech
        ((1, 2, 10), [1, 2], [10]),  # nothing behind a stop id
        ((), [7, 0, 3, 7], [0, 3, 7, 0]),  # code 0 is copied like any other
        ((), [0, 9, 0], [9, 0, 9, 0]),  # and followed
        ((), [5, 11, 5], [10]),  # what stands for no law is no id
    ],
)
def test_it_copies_what_followed(
    heard: tuple[int, ...], said: list[int], proposed: list[int]
) -> None:
    one = replace(request(maximum=20), prompt_tokens=heard)
    other = replace(request("other", maximum=20), prompt_tokens=(0, 0, 0))
    rows = BatchState(Size.of([one, other], 4), (10,), 11, CPU)
    rows.load([one, other])
    drafting = LookupDrafter(11, CPU).start(Size.of([one, other], 4))
    drafting.load([one, other])
    rows.tokens[0, : len(said)] = torch.tensor(said)
    rows.tokens[1, 0] = 9
    rows.count.copy_(torch.tensor([len(said), 1]))
    drafted, laws = drafting.propose(rows, Sampler(), 4)
    assert drafted.tolist() == [len(proposed), 0]
    assert rows.tokens[0, len(said) :][: len(proposed)].tolist() == proposed
    assert laws[0].argmax(-1)[: len(proposed)].tolist() == proposed
    assert (laws.sum(-1) == 1).all()


def test_a_match_may_have_to_be_longer() -> None:
    one = request(maximum=20)
    rows = BatchState(Size.of([one], 4), (10,), 11, CPU)
    rows.load([one])
    drafting = LookupDrafter(11, CPU, shortest=2).start(Size.of([one], 4))
    rows.tokens[0, :3] = torch.tensor([6, 1, 6])
    rows.count.fill_(3)
    assert drafting.propose(rows, Sampler(), 4)[0].tolist() == [0]


def test_a_row_of_a_batch_has_its_own_prompt() -> None:
    """As a batch whose rows are filled again one by one sees them."""
    many = [replace(request(f"{n}", maximum=20), prompt_tokens=(n, 8, n + 1)) for n in range(3)]
    rows = BatchState(Size.of(many, 4), (10,), 11, CPU)
    rows.load(many)
    drafting = LookupDrafter(11, CPU).start(Size.of(many, 4))
    drafting.load(many)
    rows.tokens[:, 0] = torch.arange(3)
    rows.count.fill_(1)
    drafted, laws = drafting.row(1).propose(rows.row(1), Sampler(), 2)
    assert (drafted.tolist(), laws.argmax(-1).tolist()) == ([2], [[8, 2]])


def decode(rule: AcceptanceRule, rows: list[Request]) -> list[Outcome]:
    return Speculation(TARGET, DRAFTER, rule, Sampler(), STOPS, 2).decode(rows)


def test_the_exact_rule_gives_the_targets_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """To 1e-12; a law that is not the one of the copies is found."""
    one = replace(request(minimum=1, maximum=4), prompt_tokens=(1, 0, 2, 1))
    law = autoregressive_law(TARGET, Sampler(), STOPS, one)
    assert distance(induced_law(decode, one, lookahead=2), law) < 1e-12
    honest: Callable[..., tuple[Tensor, Tensor]] = LookupDrafting.propose

    def unsure(*given: object) -> tuple[Tensor, Tensor]:
        drafted, laws = honest(*given)
        return drafted, 0.5 * laws + 0.5 / VOCAB

    monkeypatch.setattr(LookupDrafting, "propose", unsure)
    assert distance(induced_law(decode, one, lookahead=2), law) > 1e-3


def test_a_batch_is_its_rows_and_greedy_output_the_targets() -> None:
    rows = ragged(12, vocab=VOCAB)
    together = decode(Tolerance(0.0), rows)
    assert sum(out.counts.drafted for out in together) > 10
    for row, out in zip(rows, together, strict=True):
        assert decode(Tolerance(0.0), [row])[0] == out
    greedy = Sampler(temperature=0.0)
    found = Speculation(TARGET, DRAFTER, Tolerance(0.0), greedy, STOPS, 3).decode(rows)
    alone = autoregressive(TARGET, STOPS, greedy, rows)
    assert [out.tokens for out in found] == [out.tokens for out in alone]
