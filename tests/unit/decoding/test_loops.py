"""Edge cases of the decoding loops, with stub models that never, always and sometimes agree."""

from dataclasses import replace

import torch
from group_laws import Cover
from stubs import Markov, request, speculative

from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.records import Counts

VOCAB, STOPS, EXACT, PLAIN = 6, (4, 5), Tolerance(0.0), Sampler()
TALKS = Markov.random(VOCAB, 0).without(*STOPS)


def says(token: int) -> Markov:
    """A chain that says one token, whatever came before."""
    table = torch.full((VOCAB, VOCAB, VOCAB), float("-inf"))
    table[..., token] = 0.0
    return Markov(table)


def after(context: int, token: int, otherwise: int) -> Markov:
    """A chain that says `token` after `context`, else `otherwise`."""
    chain = says(otherwise)
    chain.table[:, context] = says(token).table[:, context]
    return chain


def one(target: Markov, draft: Markov, lookahead: int = 3, **options: int) -> Outcome:
    row = request(**options)
    return speculative(target, draft, EXACT, STOPS, PLAIN, lookahead, [row])[0]


def test_a_draft_equal_to_the_target_is_always_accepted() -> None:
    """Also after full acceptance, where the draft must be fed its own last token: the chain reads
    its cache. The last round is shortened: 1 + 4 + 4 + 3 = 12.
    """
    out = one(TALKS, TALKS, maximum=12)
    assert len(out.tokens) == 12
    assert out.counts == Counts(3, [3, 3, 2], [3, 3, 2], residuals=0, bonuses=3)


def test_a_draft_without_common_tokens_is_never_accepted() -> None:
    """The last round has room for one token: nothing is drafted, and what the target says counts as
    a bonus.
    """
    out = one(TALKS.without(0, 1), TALKS.without(2, 3), maximum=9)
    assert len(out.tokens) == 9
    assert out.counts.accepted == 0
    assert (out.counts.rounds, out.counts.bonuses, out.counts.residuals) == (8, 1, 7)
    assert set(out.tokens) <= {2, 3}  # what the target cannot say never passes


def test_drafting_stops_behind_a_drafted_stop_id() -> None:
    """The target agrees, so the utterance ends there: no bonus, no residual token."""
    chain = after(0, 1, otherwise=2)
    chain.table[:, 1] = says(4).table[:, 1]
    out = one(chain, chain, lookahead=3, start=(0, 0))  # 1 from the prefill, then 4
    assert out == Outcome([1, 4], True, Counts(1, [1, 0, 0], [1, 0, 0], 0, 0, 0))


def test_a_rejected_stop_id_does_not_end_the_utterance() -> None:
    out = one(says(2), says(4), maximum=3)
    assert out == Outcome([2, 2, 2], False, Counts(2, [1, 0, 0], [0, 0, 0], 1, 1, 0))


def test_a_residual_or_bonus_stop_id_ends_the_utterance() -> None:
    residual = one(after(0, 1, otherwise=4), says(2), start=(0, 0))
    assert residual == Outcome([1, 4], True, Counts(1, [1, 1, 1], [0, 0, 0], 1, 0, 0))
    bonus = one(after(1, 4, otherwise=1), says(1), lookahead=1, start=(0, 0))
    assert bonus.tokens == [1, 4]
    chain = Markov(torch.stack([says(3).table[0]] * VOCAB))
    chain.table[3, 3] = says(4).table[3, 3]  # 3 3, then the end
    full = one(chain, says(3), lookahead=1, start=(0, 0))
    assert full == Outcome([3, 3, 4], True, Counts(1, [1], [1], 0, 1, 0))


def test_a_stop_id_0_ends_only_where_it_is_said() -> None:
    """Before the first token a row holds 0, which is none of its tokens."""
    out = speculative(says(3), says(3), EXACT, (0,), PLAIN, 2, [request(maximum=6)])[0]
    assert out.tokens == [3] * 6
    rejected = speculative(says(3), says(0), EXACT, (0,), PLAIN, 2, [request(maximum=6)])[0]
    assert rejected.tokens == [3] * 6
    ends = speculative(says(0), says(3), EXACT, (0,), PLAIN, 2, [request(maximum=6)])[0]
    assert (ends.tokens, ends.stopped) == ([0], True)


def test_tokens_of_a_seed_are_pinned() -> None:
    """Other uniforms for the same draw pass every chi-square; finished runs would not resume.

    Whoever changes these raises `schema.decode.LAWS`.
    """
    draft, rows = TALKS.near(1, 0.7), [request("pinned", maximum=16, seed=3)]
    alone = autoregressive(TALKS, STOPS, PLAIN, rows)[0].tokens
    cover = Cover(VOCAB, ((0, 1, 3), (1, 2), (4, 5)), (1.0, 1.0, 1.0)).rule()
    found = {
        name: speculative(TALKS, draft, rule, STOPS, PLAIN, 3, rows)[0].tokens
        for name, rule in (("exact", EXACT), ("tolerance", Tolerance(0.4)), ("group", cover))
    }
    assert alone == [3, 1, 3, 1, 3, 1, 3, 0, 1, 3, 1, 2, 1, 1, 1, 1]
    assert found == {
        "exact": [3, 1, 1, 1, 1, 1, 3, 1, 0, 3, 3, 0, 1, 3, 1, 2],
        "tolerance": [3, 1, 1, 1, 1, 1, 3, 1, 0, 2, 0, 3, 0, 1, 3, 1],
        "group": [3, 1, 1, 1, 1, 1, 3, 1, 0, 3, 1, 0, 2, 2, 1, 1],
    }


def test_the_draft_may_have_a_prompt_of_its_own() -> None:
    row = request(maximum=13, start=(0, 1, 2))
    other = request(maximum=13, start=(3, 3, 3, 3, 0, 1, 2))
    own = type(row)(row.id, row.prompt, other.prompt, 0, 13, 0)
    assert speculative(TALKS, TALKS, EXACT, STOPS, PLAIN, 3, [own])[0] == one(
        TALKS, TALKS, maximum=13, start=(0, 1, 2)
    )


def test_what_it_drafts_first_hangs_on_how_its_own_prompt_ends() -> None:
    chain = says(2)
    chain.table[3] = says(3).table[3]
    own = replace(request(), draft_prompt=request(start=(0, 3)).prompt)
    (out,) = speculative(chain, chain, EXACT, STOPS, PLAIN, 3, [own])
    assert 0 < out.counts.accepted < out.counts.drafted
