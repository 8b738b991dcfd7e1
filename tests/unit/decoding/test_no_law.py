"""Logits without a law: NaN, infinite, or nothing but stop ids before the minimum length.

They once ended in an IndexError (on a GPU a device assert), a greedy loop said an id in silence
until the limit, and a path search took them as they were.
"""

from types import SimpleNamespace

import pytest
import torch
from rule_laws import CASES
from stubs import CPU, Markov, request, speculative

from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.blocks.choosers import IndependentHeads, ViterbiHeads
from speculative_tts.decoding.blocks.transitions import DenseTransitions
from speculative_tts.decoding.blocks.viterbi import PathSearch
from speculative_tts.decoding.loops.multi_token import multi_token
from speculative_tts.decoding.loops.one_by_one import autoregressive, uncached
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.schema.decode import Repetition

VOCAB, STOPS = 6, (4, 5)
TALKS = Markov.random(VOCAB, 0).without(*STOPS)
BAD = {"nan": float("nan"), "infinite": float("inf")}
SAMPLERS = {
    "greedy": Sampler(temperature=0.0),
    "plain": Sampler(),
    "top-k and top-p": Sampler(0.8, 3, 0.9),
    "aware": RepetitionAware(top_k=4, window=3),
    "aware, greedy": RepetitionAware(temperature=0.0, window=3),
    "aware, redrawn": RepetitionAware(window=3, variant=Repetition.redraw_stops),
}
RULES: dict[str, AcceptanceRule] = {
    f"{name} {n}": case.rule for name, some in CASES.items() for n, case in enumerate(some)
}


def broken_after(chain: Markov, token: int, value: float) -> Markov:
    """The chain, one of whose logits behind `token` is no number."""
    table = chain.table.clone()
    table[:, token, 2] = value
    return Markov(table)


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_the_row_ends_there_and_the_others_go_on(sampler: Sampler, value: float) -> None:
    start = [(0, k % 4) for k in range(8)]
    rows = [request(f"row {k}", maximum=1 + k, start=start[k]) for k in range(8)]
    bad = broken_after(TALKS, 1, value)
    sound = autoregressive(TALKS, STOPS, sampler, rows)
    found = autoregressive(bad, STOPS, sampler, rows)
    assert any(out.failure for out in found)
    for row, (out, plain) in enumerate(zip(found, sound, strict=True)):
        said = [start[row][1], *plain.tokens]
        if 1 in said[:-1]:
            place = said.index(1)
            assert out.tokens == plain.tokens[:place]
            assert (out.failure or "").startswith(f"row {row}: no law for token {place}: ")
            assert "dtype" in (out.failure or "")
            assert not out.stopped
        else:
            assert out == plain


@pytest.mark.parametrize("which", ["target", "draft"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_speculation_stops_there_too(rule: AcceptanceRule, which: str) -> None:
    """A draft that breaks down is told as well, not outvoted in silence."""
    rows = [request(f"row {k}", maximum=12, start=(0, k % 4)) for k in range(12)]
    target, draft = TALKS, TALKS.near(1, 0.5)
    sound = speculative(target, draft, rule, STOPS, Sampler(), 3, rows)
    if which == "target":
        target = broken_after(target, 1, float("nan"))
    else:
        draft = broken_after(draft, 1, float("nan"))
    found = speculative(target, draft, rule, STOPS, Sampler(), 3, rows)
    assert any(out.failure for out in found)
    for row, (out, plain) in enumerate(zip(found, sound, strict=True)):
        assert len(out.tokens) <= len(plain.tokens)
        assert out.tokens == plain.tokens[: len(out.tokens)]
        if out.failure:
            assert f"row {row}: no law for token {len(out.tokens)}: " in out.failure
        else:
            assert out.tokens == plain.tokens


@pytest.mark.parametrize("variant", [None, *Repetition])
def test_nothing_but_stop_ids_before_the_minimum(variant: Repetition | None) -> None:
    """It once was an IndexError, and with `redraw_eos` an end before the minimum."""
    table = torch.full((VOCAB,) * 3, float("-inf"))
    table[..., 4] = 0.0
    sampler = Sampler() if variant is None else RepetitionAware(variant=variant)
    (out,) = autoregressive(Markov(table), STOPS, sampler, [request("a", minimum=2)])
    assert out.tokens == []
    assert "a: no law for token 0" in str(out.failure)
    assert "before the minimum length" in str(out.failure)


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_blocks_of_tokens_end_there(value: float) -> None:
    """Of three heads the second has no law, whoever chooses."""
    logits = torch.randn(1, 3, VOCAB, generator=torch.Generator().manual_seed(0))
    logits[..., STOPS] = -9.0
    logits[0, 1, 3] = value
    search = PathSearch(DenseTransitions(torch.zeros(VOCAB, VOCAB), size=4), 3)
    stop = StopRule.build(STOPS, VOCAB, [0], CPU)
    for choose in (
        IndependentHeads(Sampler()),
        IndependentHeads(Sampler(temperature=0.0)),
        IndependentHeads(RepetitionAware(window=3)),
        ViterbiHeads(search, stop, temperature=1.0, sample=False),
        ViterbiHeads(search, stop, temperature=1.0, sample=True),
    ):
        rows = BatchState.of(
            [Request("a", torch.zeros(1, 1), None, 0, 9, 0)], STOPS, VOCAB, slack=3
        )
        block = choose(logits, rows, torch.tensor([0])).tokens
        assert block[0, 1] == VOCAB
        rows.commit(block)
        assert rows.finished
        assert rows.count.tolist() == [2]


def test_limits_that_cannot_be_kept_and_no_requests() -> None:
    """A minimum above the maximum barred the end for nothing; 0 tokens and [] were tracebacks."""
    with pytest.raises(ValueError, match="a: min_tokens 5 is above max_tokens 4; lower"):
        request("a", minimum=5, maximum=4)
    with pytest.raises(ValueError, match="a: max_tokens 0 is below 1; give 1 or more"):
        request("a", maximum=0)
    assert autoregressive(TALKS, STOPS, Sampler(), []) == []
    assert speculative(TALKS, TALKS, Tolerance(0.0), STOPS, Sampler(), 3, []) == []
    nothing: list[Request] = []
    blocks = SimpleNamespace(n=3)
    assert multi_token(None, blocks, None, STOPS, nothing) == []  # type: ignore[arg-type]
    assert uncached(None, STOPS, Sampler(), nothing) == []  # type: ignore[arg-type]
