"""Every drafter that is verified: the law of whole outputs without sampling noise, rows, greed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from group_laws import Cover
from head_stubs import Embedded, Mixed, Mixing, choosers
from partition import induced_law
from reference import autoregressive_law
from stubs import CPU, ragged, request
from test_enumeration import distance
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.blocks import viterbi
from speculative_tts.decoding.blocks.choosers import ViterbiHeads
from speculative_tts.decoding.drafters.drafter import Drafter
from speculative_tts.decoding.drafters.heads import HeadsDrafter
from speculative_tts.decoding.drafters.lookup import LookupDrafter, LookupDrafting
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter, RecurrentDrafting
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling.randomness import DRAFT
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler

VOCAB, STOPS = 5, (4,)
TARGET = Embedded.random(VOCAB, 0, scale=0.8, dtype=torch.float64).without(0)
ONE = replace(request(minimum=1, maximum=4), prompt_tokens=(1, 0, 2, 1))
PLAIN, ALL = Sampler(), Sampler(temperature=0.8, top_k=4, top_p=0.9)
Make = Callable[[Embedded, Sampler], Drafter]


def heads(name: str, target: Embedded, sampler: Sampler) -> HeadsDrafter:
    chooser = choosers(VOCAB, STOPS, sampler, target.table.dtype)[name]
    return HeadsDrafter(Mixed(VOCAB, 4), chooser)  # type: ignore[arg-type]


def layer(target: Embedded, _: Sampler, *, few: bool = False) -> RecurrentDrafter:
    """A recurrent layer; few: of the frequent tokens alone (FR-Spec), others come as residuals."""
    mixing = Mixing(VOCAB)
    if few:
        barred = torch.tensor([0.0, -torch.inf, 0.0, -torch.inf, 0.0], dtype=target.table.dtype)
        mixing.logits = lambda states: states + barred  # type: ignore[method-assign]
    return RecurrentDrafter(target, mixing)  # type: ignore[arg-type]


DRAFTERS: dict[str, Make] = {
    **{name: partial(heads, name) for name in choosers(VOCAB, STOPS, PLAIN)},
    "a layer": layer,
    "a layer of few tokens": partial(layer, few=True),
    "look-up": lambda *_: LookupDrafter(VOCAB, CPU),
}


def spoken(
    name: str,
    rule: AcceptanceRule,
    rows: list[Request],
    sampler: Sampler = PLAIN,
    lookahead: int = 2,
    target: Embedded = TARGET,
) -> list[Outcome]:
    drafter = DRAFTERS[name](target, sampler)
    return Speculation(target, drafter, rule, sampler, STOPS, lookahead).decode(rows)


def law_of(name: str, sampler: Sampler = PLAIN, lookahead: int = 2) -> float:
    """How far the exact rule's law over these drafts is from the target's."""
    decode = partial(spoken, name, sampler=sampler, lookahead=lookahead)
    law = induced_law(decode, ONE, lookahead=lookahead)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    return distance(law, autoregressive_law(TARGET, sampler, STOPS, ONE))


@pytest.mark.parametrize("sampler", [PLAIN, ALL, RepetitionAware(window=2, tau=0.5)])
@pytest.mark.parametrize("name", DRAFTERS)
def test_the_exact_rule_gives_the_targets_law(name: str, sampler: Sampler) -> None:
    """To 1e-12."""
    assert law_of(name, sampler) < 1e-12


@pytest.mark.parametrize(
    ("name", "drafting"), [("a layer", RecurrentDrafting), ("look-up", LookupDrafting)]
)
def test_a_law_that_is_not_the_tokens_is_found(
    name: str, drafting: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: drawn from the law, reported as half of it and half of anything."""
    honest = drafting.propose  # type: ignore[attr-defined]

    def unsure(*given: object) -> tuple[Tensor, Tensor]:
        drafted, laws = honest(*given)
        return drafted, 0.5 * laws + 0.5 / VOCAB

    monkeypatch.setattr(drafting, "propose", unsure)
    assert law_of(name) > 1e-3


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
    assert law_of("drawn path", lookahead=lookahead) > 1e-2


def test_other_laws_are_as_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drafted from worse laws is still verified: messages cost acceptance, not the law."""
    no_messages(monkeypatch)
    assert law_of("drawn path") < 1e-12


@pytest.mark.parametrize("name", DRAFTERS)
def test_greedy_output_is_the_targets(name: str) -> None:
    greedy, target = Sampler(temperature=0.0), Embedded.random(VOCAB, 5)
    rows = ragged(12, vocab=VOCAB)
    alone = autoregressive(target, STOPS, greedy, rows)
    for lookahead in (1, 3):
        found = spoken(name, Tolerance(0.0), rows, greedy, lookahead, target)
        assert [out.tokens for out in found] == [out.tokens for out in alone]


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_batch_is_its_rows_under_every_rule(name: str) -> None:
    """Ragged rows, which end at different rounds; counts too."""
    rows = ragged(9, vocab=VOCAB, seed=2)
    group = Cover(VOCAB, ((0, 1, 3), (1, 2), (4,)), (1.0, 1.0, 1.0)).rule()
    target = Embedded.random(VOCAB, 0, scale=0.8).without(0)
    for rule in (Tolerance(0.0), Tolerance(0.3), group):
        single = [spoken(name, rule, [row], lookahead=3, target=target)[0] for row in rows]
        assert spoken(name, rule, rows, lookahead=3, target=target) == single
    assert sum(out.counts.accepted for out in single) > 0
