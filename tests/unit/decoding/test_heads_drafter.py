"""Heads that draft and are verified: the law of whole outputs without sampling noise, and edges."""

import pytest
import torch
from group_laws import Cover
from head_stubs import Mixed, by_heads, choosers
from partition import induced_law
from reference import autoregressive_law
from stubs import Markov, ragged, request
from test_enumeration import distance
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.blocks import viterbi
from speculative_tts.decoding.blocks.choosers import ViterbiHeads
from speculative_tts.decoding.drafters.heads import HeadsDrafter
from speculative_tts.decoding.loops.graphs import EAGER
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling.randomness import DRAFT
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler

VOCAB, STOPS = 5, (4,)
TARGET = Markov.random(VOCAB, 0, scale=0.8, dtype=torch.float64).without(0)
ONE = request(minimum=1, maximum=4)
PLAIN, ALL = Sampler(), Sampler(temperature=0.8, top_k=4, top_p=0.9)
NAMES = tuple(choosers(VOCAB, STOPS, PLAIN))


def law_of(name: str, sampler: Sampler, lookahead: int = 2) -> float:
    """How far the exact rule's law over these drafts is from the target's."""
    chooser = choosers(VOCAB, STOPS, sampler, torch.float64)[name]

    def decode(rule: AcceptanceRule, rows: list[Request]) -> list[Outcome]:
        return by_heads(TARGET, chooser, rule, STOPS, sampler, lookahead, rows)

    law = induced_law(decode, ONE, lookahead=lookahead)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    return distance(law, autoregressive_law(TARGET, sampler, STOPS, ONE))


@pytest.mark.parametrize("sampler", [PLAIN, ALL, RepetitionAware(window=2, tau=0.5)])
@pytest.mark.parametrize("name", NAMES)
def test_the_exact_rule_gives_the_targets_law(name: str, sampler: Sampler) -> None:
    """To 1e-12, for every way to draft a block."""
    assert law_of(name, sampler) < 1e-12


def no_messages(patch: pytest.MonkeyPatch) -> None:
    """Laws that do not know where the path can go on: not those of a drawn path, but laws."""
    real = viterbi.Walk.__init__

    def init(self: viterbi.Walk, lattice: viterbi.Lattice) -> None:
        real(self, lattice)
        self._messages = [torch.zeros_like(message) for message in self._messages]

    patch.setattr(viterbi.Walk, "__init__", init)


def said_law_is_another(patch: pytest.MonkeyPatch) -> None:
    """Tokens of one law under the name of another, which does not look at the token before."""
    real = viterbi.Walk.law

    def law(self: viterbi.Walk, place: int, before: Tensor | None) -> Tensor:
        return real(self, place, None if place == 0 else torch.zeros_like(before))  # type: ignore[arg-type]

    def draft(self: ViterbiHeads, logits: Tensor, rows: BatchState) -> Tensor:
        said = honest(self, logits, rows)
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(viterbi.Walk, "law", law)
            honest(self, logits, rows)
        return said

    honest = ViterbiHeads.draft
    patch.setattr(ViterbiHeads, "draft", draft)


def drawn_from_its_end(patch: pytest.MonkeyPatch) -> None:
    """The same joint law, but a token hangs on the uniforms behind it, which are used again."""
    real = BatchState.uniform

    def uniform(rows: BatchState, positions: Tensor, purpose: int) -> Tensor:
        shifted = positions + 1 if purpose == DRAFT else positions
        return real(rows, shifted, purpose)

    patch.setattr(BatchState, "uniform", uniform)


@pytest.mark.parametrize(
    ("fault", "lookahead"), [(said_law_is_another, 2), (drawn_from_its_end, 1)]
)
def test_enumeration_finds_faults(
    fault: object, lookahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative controls, of a drawn path; of one token where the fault cuts boxes most."""
    fault(monkeypatch)  # type: ignore[operator]
    assert law_of("drawn path", PLAIN, lookahead) > 1e-2


def test_other_laws_are_as_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drafted from worse laws is still verified: messages cost acceptance, not the law."""
    no_messages(monkeypatch)
    assert law_of("drawn path", PLAIN) < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_greedy_output_is_the_targets(name: str) -> None:
    greedy, target = Sampler(temperature=0.0), Markov.random(VOCAB, 5)
    rows = ragged(12, vocab=VOCAB)
    alone = autoregressive(target, STOPS, greedy, rows)
    chooser = choosers(VOCAB, STOPS, greedy)[name]
    for lookahead in (1, 3):
        found = by_heads(target, chooser, Tolerance(0.0), STOPS, greedy, lookahead, rows)
        assert [out.tokens for out in found] == [out.tokens for out in alone]


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_its_rows_under_every_rule(name: str) -> None:
    """Ragged rows, which end at different rounds; counts too."""
    chooser, rows = choosers(VOCAB, STOPS, PLAIN)[name], ragged(9, vocab=VOCAB, seed=2)
    group = Cover(VOCAB, ((0, 1, 3), (1, 2), (4,)), (1.0, 1.0, 1.0)).rule()
    target = Markov.random(VOCAB, 0, scale=0.8).without(0)
    for rule in (Tolerance(0.0), Tolerance(0.3), group):
        single = [by_heads(target, chooser, rule, STOPS, PLAIN, 3, [row])[0] for row in rows]
        assert by_heads(target, chooser, rule, STOPS, PLAIN, 3, rows) == single
    assert sum(out.counts.accepted for out in single) > 0


def test_the_residual_token_leads_the_next_block() -> None:
    """Heads read the state that the newest token was drawn from; head 1 says what follows it."""
    seen: list[Tensor] = []

    class Recording(Mixed):
        def __call__(self, hidden: Tensor) -> Tensor:
            seen.append(hidden.clone())
            return super().__call__(hidden)

    drafter = HeadsDrafter(Recording(VOCAB, 3), choosers(VOCAB, STOPS, PLAIN)["independent"])  # type: ignore[arg-type]
    row = request(minimum=11, maximum=12)
    made = Speculation(TARGET, drafter, Tolerance(0.0), PLAIN, STOPS, 2)
    said, counts = [], []
    for rows in (state.rows for state in EAGER.states(made.looping(), [row])):
        counts.append(int(rows.count))
        said = [0, 1, *rows.tokens[0, : int(rows.count)].tolist()]
    for hidden, count in zip(seen, counts, strict=False):
        before, last = said[count - 1 : count + 1]  # the two tokens before the newest
        assert torch.equal(hidden[0], TARGET.table[before, last])
    assert len(seen) > 2


def test_too_few_heads_are_told() -> None:
    chooser = choosers(VOCAB, STOPS, PLAIN)["independent"]
    drafter = HeadsDrafter(Mixed(VOCAB, 3), chooser)  # type: ignore[arg-type]
    made = Speculation(TARGET, drafter, Tolerance(0.0), PLAIN, STOPS, 3)
    with pytest.raises(ValueError, match="lookahead 3 needs 4 heads, there are 3; lower lookahead"):
        made.decode([ONE])


@pytest.mark.parametrize("name", NAMES)
def test_heads_that_break_down_are_told(name: str) -> None:
    class Broken(Mixed):
        def __call__(self, hidden: Tensor) -> Tensor:
            return super().__call__(hidden) * float("nan")

    drafter = HeadsDrafter(Broken(VOCAB, 3), choosers(VOCAB, STOPS, PLAIN)[name])  # type: ignore[arg-type]
    made = Speculation(TARGET, drafter, Tolerance(0.0), PLAIN, STOPS, 2)
    (out,) = made.decode([request(minimum=2, maximum=4)])
    assert "no law for token 1" in str(out.failure)


@pytest.mark.parametrize("name", NAMES)
def test_drafted_laws_are_laws_where_the_end_is_likely(name: str) -> None:
    rows = BatchState.of([request(minimum=1, maximum=6)], STOPS, VOCAB, slack=3)
    rows.tokens[0, 0], rows.count[0] = 1, 1
    logits = torch.randn(1, 3, VOCAB, generator=torch.Generator().manual_seed(0)).double()
    logits[0, 1, STOPS[0]] = 2
    laws = choosers(VOCAB, STOPS, PLAIN, torch.float64)[name].draft(logits, rows)
    torch.testing.assert_close(laws.sum(-1), torch.ones(1, 3, dtype=laws.dtype))
    assert laws[0, 1, STOPS[0]] > 0.5
