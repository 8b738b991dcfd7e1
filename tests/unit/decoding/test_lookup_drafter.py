"""Drafts looked up in what was said: what is proposed; see `test_every_drafter`."""

from dataclasses import replace

import pytest
import torch
from stubs import CPU, request

from speculative_tts.decoding.batch import BatchState, Size
from speculative_tts.decoding.drafters.lookup import LookupDrafter
from speculative_tts.decoding.sampling.sampler import Sampler


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
