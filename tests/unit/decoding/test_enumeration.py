"""The law that the shipped loops induce on whole outputs, without sampling noise, against the slow
references.
"""

from dataclasses import dataclass
from functools import partial

import pytest
import torch
from faults import FAULTS, Fault
from partition import induced_law
from reference import Law, autoregressive_law, speculative_law, tolerance_masses
from stubs import Markov, request, speculative
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.schema.decode import Repetition

STOPS = (2,)
PLAIN, ALL = Sampler(), Sampler(temperature=0.8, top_k=4, top_p=0.9)
NARROW = {"top_p": 0.7, "top_k": 3, "window": 3, "tau": 0.3}  # of repetition-aware ones
# vocabulary, lookahead, minimum and maximum length, sampler
TOYS = [
    (3, 1, 0, 4, PLAIN),
    (3, 3, 1, 4, PLAIN),
    (4, 2, 0, 4, PLAIN),
    (4, 3, 2, 4, Sampler(temperature=1.5)),
    (5, 2, 1, 4, Sampler(top_k=3)),
    (5, 3, 0, 4, Sampler(top_p=0.8)),
    (6, 3, 2, 4, ALL),
    (4, 2, 1, 5, ALL),
    (5, 2, 1, 4, Sampler(temperature=0.0)),
    (5, 2, 1, 4, Sampler(temperature=0.9, top_k=4, end_when_likeliest=True)),
]
LOOKING_BACK = [  # so narrow that a tolerance changes hardly anything
    (4, 1, 0, 4, RepetitionAware(**NARROW)),
    (4, 3, 0, 4, RepetitionAware(**NARROW)),
    (5, 3, 0, 4, RepetitionAware(temperature=0.8, top_k=4, window=2, tau=0.5)),
    (4, 2, 0, 5, RepetitionAware(top_p=0.6, window=4, tau=0.5)),
    (4, 3, 0, 4, RepetitionAware(**NARROW, variant=Repetition.redraw_eos)),
]


def distance(one: Law, other: Law) -> float:
    """Greatest difference between the probabilities of an output."""
    return max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys())


def models(vocab: int) -> tuple[Markov, Markov]:
    """A target and a draft; the target cannot say token 0, which the draft likes."""
    target = Markov.random(vocab, 0, scale=0.8, dtype=torch.float64)
    return target.without(0), target.near(1, 1.0)


@pytest.mark.parametrize(
    ("vocab", "lookahead", "minimum", "maximum", "sampler", "beta"),
    [
        *((*toy, beta) for beta in (0.0, 0.3) for toy in TOYS),
        *((*toy, 0.0) for toy in LOOKING_BACK),
    ],
)
def test_speculation_induces_its_law(
    vocab: int, lookahead: int, minimum: int, maximum: int, sampler: Sampler, beta: float
) -> None:
    """beta 0: the target's own law. Above: the law by the closed form of each position. Both to
    1e-12.
    """
    target, draft = models(vocab)
    one = request(minimum=minimum, maximum=maximum)

    def decode(rule: AcceptanceRule, rows: list[Request]) -> list[Outcome]:
        return speculative(target, draft, rule, STOPS, sampler, lookahead, rows)

    law = induced_law(decode, one, lookahead=lookahead, beta=beta)
    exact = autoregressive_law(target, sampler, STOPS, one)
    masses = partial(tolerance_masses, beta)
    relaxed = speculative_law(target, draft, masses, lookahead, sampler, STOPS, one)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert distance(law, relaxed) < 1e-12
    assert (distance(law, exact) < 1e-12) == (beta == 0)


@pytest.mark.parametrize(
    ("minimum", "sampler"), [(2, PLAIN), (2, ALL), *((0, toy[-1]) for toy in LOOKING_BACK)]
)
def test_the_autoregressive_loop_induces_the_targets_law(minimum: int, sampler: Sampler) -> None:
    target, _ = models(5)
    one = request(minimum=minimum, maximum=5)
    law = induced_law(lambda rule, rows: autoregressive(target, STOPS, sampler, rows), one)
    assert distance(law, autoregressive_law(target, sampler, STOPS, one)) < 1e-12


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_enumeration_finds_faults(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative controls."""
    target, draft = models(4)
    one = request(minimum=1, maximum=4)
    fault.loop(monkeypatch)

    def decode(rule: AcceptanceRule, rows: list[Request]) -> list[Outcome]:
        faulty = fault.target(target.table)
        return speculative(faulty, draft, fault.rule(rule), STOPS, ALL, 2, rows)

    law = induced_law(decode, one, lookahead=2)
    assert distance(law, autoregressive_law(target, ALL, STOPS, one)) > 1e-3


@dataclass(frozen=True)
class WithoutDrafts(RepetitionAware):
    """All positions of one call look at what was before the first of them."""

    def _repeats(self, ids: Tensor, history: Tensor, positions: Tensor) -> Tensor:
        return super()._repeats(ids, history, positions[:, :1].expand_as(positions))


@dataclass(frozen=True)
class OneLater(RepetitionAware):
    """The window ends one token too early."""

    def _repeats(self, ids: Tensor, history: Tensor, positions: Tensor) -> Tensor:
        return super()._repeats(ids, history, (positions - 1).clamp(min=0))


@pytest.mark.parametrize("kind", [WithoutDrafts, OneLater])
def test_a_history_without_drafts_is_found(kind: type[RepetitionAware]) -> None:
    """Negative controls."""
    target, draft = models(4)
    one = request(minimum=0, maximum=4)

    def decode(rule: AcceptanceRule, rows: list[Request]) -> list[Outcome]:
        return speculative(target, draft, rule, STOPS, kind(**NARROW), 3, rows)

    law = induced_law(decode, one, lookahead=3)
    exact = autoregressive_law(target, RepetitionAware(**NARROW), STOPS, one)
    assert distance(law, exact) > 1e-3
