"""The group rule in the real loop: its law of outputs without noise, and what finds faults."""

import warnings

import partition
import pytest
import torch
from group_laws import FAULTS, Cover, singletons
from partition import Recorder, induced_law
from reference import Law, autoregressive_law, speculative_law
from stubs import Markov, request, speculative
from test_enumeration import distance
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule
from speculative_tts.decoding.rules.group import Group, Sums
from speculative_tts.decoding.sampling.sampler import Sampler

STOPS = (2,)  # alone in its group, as in every cache
PLAIN, CUT = Sampler(), Sampler(temperature=0.8, top_k=3)
OVERLAPPING = Cover(4, ((0, 1), (1, 3), (2,)), (1.0, 2.5, 1.0))
DISJOINT = Cover(4, ((0, 1, 3), (2,)), (1.0, 1.0))
TARGET = Markov.random(4, 0, scale=0.8, dtype=torch.float64).without(0)
DRAFT = Markov.random(4, 0, scale=0.8, dtype=torch.float64).near(1, 1.0)


class Watched(AcceptanceRule):
    """A group rule that notes what it asks of its uniforms: which group, then whether it passes."""

    recorder: Recorder

    def __init__(self, rule: Group, cover: Cover) -> None:
        self._rule, self._weights = rule, cover.weights()

    def accept(
        self, target_probs: Tensor, draft_probs: Tensor, drafted: Tensor, uniforms: Tensor
    ) -> Tensor:
        edges = self._weights.cumsum(0).T[drafted]  # [rows, drafted, groups]
        self.recorder.note(-1, edges)
        groups = (edges <= uniforms[..., 1:]).sum(-1, keepdim=True)
        q, p = (
            (probs.double() @ self._weights.T).gather(-1, groups)[..., 0]
            for probs in (target_probs, draft_probs)
        )
        self.recorder.thresholds((q / p).clamp(max=1))
        return self._rule.accept(target_probs, draft_probs, drafted, uniforms)

    def residual(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return self._rule.residual(target_probs, draft_probs)


def law_of(kind: type[Group], cover: Cover, lookahead: int, sampler: Sampler, one: Request) -> Law:
    """The law that the real loop induces with a rule."""

    def decode(rule: Watched, rows: list[Request]) -> list[Outcome]:
        return speculative(TARGET, DRAFT, rule, STOPS, sampler, lookahead, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "Watched", lambda _: Watched(cover.rule(kind), cover))
        return induced_law(decode, one, lookahead=lookahead)


@pytest.mark.parametrize("sampler", [PLAIN, CUT], ids=["plain", "top-k"])
@pytest.mark.parametrize("cover", [OVERLAPPING, DISJOINT], ids=["overlapping", "disjoint"])
@pytest.mark.parametrize(("lookahead", "maximum"), [(1, 3), (2, 3), (3, 4)])
def test_the_loop_induces_the_laws_of_its_positions(
    cover: Cover, sampler: Sampler, lookahead: int, maximum: int
) -> None:
    """Paths of several rounds, to 1e-12; and it is not the target's law (control)."""
    one = request(minimum=1, maximum=maximum)
    law = law_of(Group, cover, lookahead, sampler, one)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    expected = speculative_law(TARGET, DRAFT, cover.masses, lookahead, sampler, STOPS, one)
    assert distance(law, expected) < 1e-12
    assert distance(law, autoregressive_law(TARGET, sampler, STOPS, one)) > 1e-3


@pytest.mark.parametrize("lookahead", [1, 2])
def test_singleton_groups_induce_the_targets_law(lookahead: int) -> None:
    one = request(minimum=1, maximum=4)
    law = law_of(Group, singletons(4), lookahead, CUT, one)
    assert distance(law, autoregressive_law(TARGET, CUT, STOPS, one)) < 1e-12


@pytest.mark.parametrize("lookahead", [1, 2, 3])
def test_the_group_of_a_drafted_position_follows_the_target(lookahead: int) -> None:
    """With disjoint groups a token tells its group; that of the second, given the first, is Q_c."""
    one = request(minimum=1, maximum=4)
    law = law_of(Group, DISJOINT, lookahead, PLAIN, one)
    exact = autoregressive_law(TARGET, PLAIN, STOPS, one)
    for group in DISJOINT.members:
        for first in range(4):
            ours, theirs = (
                sum(
                    m for out, m in law_.items() if out[0] == first and out[1:2] and out[1] in group
                )
                for law_ in (law, exact)
            )
            assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("kind", FAULTS.values(), ids=FAULTS.keys())
def test_enumeration_finds_faults(kind: type[Group]) -> None:
    """Negative controls. Boxes are cut as for the right rule, so masses are only near."""
    one = request(minimum=1, maximum=3)
    law = law_of(kind, OVERLAPPING, 1, PLAIN, one)
    expected = speculative_law(TARGET, DRAFT, OVERLAPPING.masses, 1, PLAIN, STOPS, one)
    assert distance(law, expected) > 1e-3


SAID = (
    "Sparse CSR tensor support is in beta state.",
    "Sparse invariant checks are implicitly disabled.",  # torch 2.11's
)


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="sparse products are MKL's")
def test_warnings_of_sparse_matrices_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where warnings are errors no test of a GPU could be collected by torch 2.11."""
    real, told = torch.sparse_csr_tensor, []

    def warns(*given: object, **options: object) -> torch.Tensor:
        for text in SAID:
            warnings.warn(text, UserWarning, stacklevel=2)
        told.append(options["check_invariants"])
        return real(*given, **options)

    monkeypatch.setattr(torch, "sparse_csr_tensor", warns)
    offsets, indices = torch.tensor([0, 2, 3]), torch.tensor([0, 2, 1])
    sums = Sums(offsets, indices, torch.ones(3), 3)
    assert told == [True]
    found = sums(torch.tensor([[[1.0, 2.0, 4.0]]]))
    assert found.tolist() == [[[5.0, 2.0]]]
    with pytest.raises(UserWarning, match="Sparse"):
        warns(offsets, indices, torch.ones(3), (2, 3))
