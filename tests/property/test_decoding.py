"""What holds for every batch: counts, lengths, and that a batch is its rows, bit for bit."""

from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from stubs import Markov, ragged, speculative

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler

VOCAB, STOPS = 7, (2, 6)
TARGET = Markov.random(VOCAB, 0)
SAMPLERS = [Sampler(), Sampler(0.0), Sampler(temperature=0.8, top_k=5, top_p=0.9)]

cases = {
    "rows": st.integers(1, 9),
    "lookahead": st.integers(1, 5),
    "distance": st.sampled_from([0.0, 0.3, 3.0]),
    "beta": st.sampled_from([0.0, 0.3]),
    "sampler": st.sampled_from(SAMPLERS),
    "seed": st.integers(0, 2**63),
}


def check(out: Outcome, row: Request, lookahead: int) -> None:
    """Invariants of one outcome."""
    assert 1 <= len(out.tokens) <= row.max_tokens
    assert out.stopped == (out.tokens[-1] in STOPS)
    assert out.stopped or len(out.tokens) == row.max_tokens
    assert not set(out.tokens[:-1]) & set(STOPS)
    assert not out.stopped or len(out.tokens) > row.min_tokens
    counts = out.counts
    emitted = counts.accepted + counts.residuals + counts.bonuses
    assert len(out.tokens) == 1 + emitted
    assert counts.rounds <= emitted <= counts.rounds * (lookahead + 1)
    assert counts.residuals + counts.bonuses <= counts.rounds
    drafted, accepted = counts.drafted_per_position, counts.accepted_per_position
    assert len(drafted) == len(accepted) == lookahead
    assert drafted == sorted(drafted, reverse=True)
    assert accepted == sorted(accepted, reverse=True)
    assert all(a <= d for a, d in zip(accepted, drafted, strict=True))
    assert counts.residual_fallbacks <= counts.residuals


@examples(40)
@given(**cases)
def test_speculation_of_a_batch_is_that_of_its_rows(
    rows: int, lookahead: int, distance: float, beta: float, sampler: Sampler, seed: int
) -> None:
    requests = ragged(rows, vocab=VOCAB, seed=seed)
    draft, rule = TARGET.near(1, distance), Tolerance(beta)
    whole = speculative(TARGET, draft, rule, STOPS, sampler, lookahead, requests)
    for out, row in zip(whole, requests, strict=True):
        check(out, row, lookahead)
        assert speculative(TARGET, draft, rule, STOPS, sampler, lookahead, [row]) == [out]
    backwards = speculative(TARGET, draft, rule, STOPS, sampler, lookahead, requests[::-1])
    assert backwards[::-1] == whole


@examples(20)
@given(st.integers(1, 9), st.sampled_from(SAMPLERS), st.integers(0, 2**63))
def test_a_decoded_batch_is_its_rows(rows: int, sampler: Sampler, seed: int) -> None:
    requests = ragged(rows, vocab=VOCAB, seed=seed)
    whole = autoregressive(TARGET, STOPS, sampler, requests)
    for out, row in zip(whole, requests, strict=True):
        assert 1 <= len(out.tokens) <= row.max_tokens
        assert autoregressive(TARGET, STOPS, sampler, [row]) == [out]
        assert out == Outcome(out.tokens, out.tokens[-1] in STOPS)
