"""Native laws and draws beside their Python references."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from computing import computing
from group_laws import FAULTS, Cover, random_cover, singletons
from pairwise import pairwise
from torch import Tensor

from speculative_tts.decoding.loops import speculation
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling import randomness
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.native import sample, verify
from speculative_tts.schema.decode import Kernels, Repetition

CLOSE = 1e-6
VOCAB, STOPS = 2049, (2047, 2048)
HISTORY, PLACES = torch.zeros(4, 9, dtype=torch.int64), torch.arange(5).expand(4, 5)
AWARE = RepetitionAware(1.0, 25, 0.8, window=10, tau=0.1)
SAMPLERS = {
    "greedy": Sampler(0.0),
    "all": Sampler(),
    "warm": Sampler(1.7),
    "top-k": Sampler(0.8, 50),
    "top-k and top-p": Sampler(0.9, 25, 0.8),
    "top-p": Sampler(1.0, 0, 0.9),
    "large top-k": Sampler(1.0, 700, 0.95),
    "one": Sampler(1.0, 1),
    "more than 32 bits": Sampler(1.0, 2**32 + 1),
    "ending when likeliest": Sampler(1.0, 25, 0.8, end_when_likeliest=True),
    "penalty": RepetitionPenalty(0.8, 50, 1.0, 1.3),
    "ras": AWARE,
    "ras, greedy": dataclasses.replace(AWARE, temperature=0.0),
    "ras, long window": dataclasses.replace(AWARE, window=25, tau=0.08, temperature=0.7),
    "ras, barred": dataclasses.replace(AWARE, barred=(2047,)),
    "ras, all ids": dataclasses.replace(AWARE, top_k=0, top_p=1.0),
    **{
        f"ras, {variant.name}": dataclasses.replace(AWARE, variant=variant)
        for variant in Repetition
    },
}


def inputs(seed: int, batch: int = 3, new: int = 4) -> tuple[Tensor, Tensor, Tensor, StopRule]:
    """Logits, history, positions and stops; some of a row's likeliest ids are in its history."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(batch, new, VOCAB, generator=generator)
    history = torch.randint(0, VOCAB, (batch, 40), generator=generator)
    logits[:, 3, 2048] += 8.0  # an end that is likeliest, in some rows
    history[:, ::3] = logits[:, 0].topk(14).indices
    positions = torch.tensor([[0], [9], [30]])[:batch] + torch.arange(new)
    stop = StopRule.build(STOPS, VOCAB, [2, 0, 33][:batch], torch.device("cpu"))
    return logits, history, positions, stop


def ends_of_nuclei(sampler: Sampler, logits: Tensor, positions: Tensor, stop: StopRule) -> Tensor:
    """Distance of top_p from the nearest running sum of each law, [batch, new]."""
    if sampler.top_p == 1 or sampler.temperature == 0:
        return torch.ones(positions.shape)
    values = stop.mask(logits, positions).double() / sampler.temperature
    aware = isinstance(sampler, RepetitionAware)
    top = values.topk(min(sampler.top_k, VOCAB) or VOCAB, -1).values
    kept = (top - (values if aware else top).logsumexp(-1, keepdim=True)).exp()
    return (kept.cumsum(-1) - sampler.top_p).abs().min(-1).values


@pytest.mark.native
@pytest.mark.parametrize("name", SAMPLERS)
def test_laws_equal_their_references(name: str) -> None:
    """To 1e-6, but where a nucleus ends within rounding: there it may have one token more.

    In double precision: torch's float32 softmax is off by more than that on some processors.
    """
    sampler, compared, near = SAMPLERS[name], 0, 0
    for seed in range(40):
        given = inputs(seed)
        assert sample.runs(given[0])
        ours = sampler(*given)
        with computing(Kernels.torch):
            theirs = sampler(given[0].double(), *given[1:])
        clear = ends_of_nuclei(sampler, given[0], given[2], given[3]) > CLOSE
        assert (ours - theirs).abs().amax(-1)[clear].max() < CLOSE
        assert (ours.sum(-1) - 1).abs().max() < 1e-5
        compared, near = compared + clear.numel(), near + int((~clear).sum())
    assert near < 0.02 * compared  # top-p without top-k has hundreds of sums near its end


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_there_is_no_law_where_there_was_none(name: str, value: float) -> None:
    """NaN or infinite logits, and rows where nothing is possible."""
    logits, history, positions, stop = inputs(0)
    logits[0, 1, 7] = value
    logits[1, 2] = float("-inf")
    ours = SAMPLERS[name](logits, history, positions, stop)
    lost = ours.isnan().any(-1)
    assert lost[0, 1]
    assert lost[1, 2]
    assert lost.sum() == 2
    ids = randomness.draw(ours, torch.full(positions.shape, 0.5, dtype=torch.float64))
    assert ids[lost].tolist() == [VOCAB] * 2
    assert ids[~lost].max() < VOCAB


@pytest.mark.native
@pytest.mark.parametrize("vocab", [50, VOCAB])
@pytest.mark.parametrize("value", [0.0, -5.0, 1e-40, 3e38])
@pytest.mark.parametrize("possible", [[0, 1, 2, 3, 4, 5], [7, 30, 48]])
def test_equal_logits_are_kept_lower_ids_first(
    vocab: int, value: float, possible: list[int]
) -> None:
    """And of few possible ids all, whether or not the likeliest can be told by a bound."""
    logits = torch.full((1, 1, vocab), value)
    if len(possible) < 4:
        logits[:] = float("-inf")
        logits[..., possible] = value
    stop = StopRule.build((), vocab, [0], torch.device("cpu"))
    places = torch.zeros(1, 1, dtype=torch.int64)
    law = Sampler(1.0, 4)(logits, places, places, stop)[0, 0]
    assert law.nonzero()[:, 0].tolist() == possible[:4]


@pytest.mark.parametrize("vocab", [1, 5, 16, 50, VOCAB])
def test_draws_of_one_law_are_the_references(vocab: int) -> None:
    """Sums are added up in the same order: not one differs, also at the edges of [0, 1)."""
    generator = torch.Generator().manual_seed(vocab)
    laws = torch.rand(400, vocab, generator=generator) ** 8
    laws[:, ::2] *= torch.rand(400, 1, generator=generator) < 0.5
    laws[:, -1] += 0.1
    uniform = torch.rand(400, generator=generator).double()
    uniform[:50], uniform[50:100] = 0.0, 1 - 2.0**-53
    ours = randomness.draw(laws, uniform)
    assert ours.equal(randomness.draw(laws.double(), uniform))  # float64 is torch's
    assert (laws.gather(-1, ours[:, None]) > 0).all()
    nothing = randomness.draw(torch.zeros(2, vocab), uniform[:2])
    assert nothing.tolist() == [vocab] * 2


def partition(vocab: int) -> Cover:
    """Groups of three neighbours."""
    groups = tuple(tuple(range(at, min(at + 3, vocab))) for at in range(0, vocab, 3))
    return Cover(vocab, groups, (1.0,) * len(groups))


RULES: dict[str, Callable[[int], AcceptanceRule]] = {
    "exact": lambda _: Tolerance(0.0),
    "tolerance": lambda _: Tolerance(0.4),
    "groups apart": lambda vocab: partition(vocab).rule(),
    "groups that overlap": lambda vocab: random_cover(vocab, 3).rule(),
    "equal shares": lambda vocab: random_cover(vocab, 4, equal=True).rule(),
    "groups of one": lambda vocab: singletons(vocab).rule(),
}
FEW_OF_MANY, ALL = (200, Sampler(1.0, 8)), (50, Sampler(1.0))


def verification_of(
    vocab: int, sampler: Sampler, drafted: int, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Ragged drafts, rejections, full acceptance, no residual, and a row without a law."""
    generator = torch.Generator().manual_seed(seed)
    stop = StopRule.build((), vocab, [0] * 4, torch.device("cpu"))
    logits = 2 * torch.randn(4, drafted + 1, vocab, generator=generator)
    target = sampler(logits, HISTORY, PLACES[:, : drafted + 1], stop)
    close = logits[:, :drafted] + 0.3 * torch.randn(4, drafted, vocab, generator=generator)
    draft = sampler(close, HISTORY, PLACES[:, :drafted], stop) if drafted else close
    if drafted:
        draft[0], target[1, 0] = target[0, :drafted], float("nan")
    ids = draft.reshape(-1, vocab).multinomial(1, generator=generator) if drafted else draft.long()
    ids = ids.view(4, drafted) if drafted else ids[..., 0]
    lengths = torch.randint(0, drafted + 1, (4,), generator=generator)
    return target, draft, ids, lengths, torch.rand(4, drafted, 2, generator=generator).double()


@pytest.mark.parametrize(
    ("drafted", "name", "laws"), pairwise([0, 1, 4], RULES, [FEW_OF_MANY, ALL])
)
def test_a_verification_equals_its_reference(
    drafted: int, name: str, laws: tuple[int, Sampler]
) -> None:
    """Not one acceptance differs; laws of a residual with mass are equal to 1e-6."""
    rule, seen = RULES[name](laws[0]), set()
    for seed in range(60):
        given = verification_of(*laws, drafted, seed)
        ours, theirs = speculation.verify(rule, *given), rule.judge(*given)
        assert ours.accepted.equal(theirs.accepted)
        assert ours.fallback.equal(theirs.fallback)
        torch.testing.assert_close(
            ours.next_probs, theirs.next_probs, rtol=0, atol=CLOSE, equal_nan=True
        )
        seen |= set(ours.accepted.tolist())
    assert seen == set(range(drafted + 1))


@pytest.mark.native
@pytest.mark.parametrize("laws", [FEW_OF_MANY, ALL], ids=["top-k", "all"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_verification_by_groups_is_no_faulty_one(fault: str, laws: tuple[int, Sampler]) -> None:
    """The control: what the reference with a fault says is found to differ."""
    cover, differ = random_cover(laws[0], 3), 0
    for seed in range(60):
        given = verification_of(*laws, 4, seed)
        ours = speculation.verify(cover.rule(), *given)
        theirs = cover.rule(FAULTS[fault]).judge(*given)
        same = ours.accepted.equal(theirs.accepted)
        differ += not (same and ours.next_probs.allclose(theirs.next_probs, 0, CLOSE, True))
    assert differ >= 5


@pytest.mark.native
def test_numbers_of_more_than_16_bits_verify_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    given = verification_of(*ALL, 4, 0)
    narrow = speculation.verify(random_cover(50, 3).rule(), *given)
    monkeypatch.setattr(verify, "NARROW", 10)
    wide = speculation.verify(random_cover(50, 3).rule(), *given)
    assert wide.accepted.equal(narrow.accepted)
    assert wide.next_probs.allclose(narrow.next_probs, 0, 0, True)


@pytest.mark.native
@pytest.mark.parametrize("laws", [FEW_OF_MANY, ALL], ids=["top-k", "all"])
def test_threads_change_nothing_of_a_verification(laws: tuple[int, Sampler]) -> None:
    rule, given = random_cover(laws[0], 3).rule(), verification_of(*laws, 4, 0)
    before, found = torch.get_num_threads(), []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        found.append(speculation.verify(rule, *given).next_probs)
    torch.set_num_threads(before)
    assert found[0].allclose(found[1], 0, 0, equal_nan=True)


def test_a_subclass_that_verifies_differently_has_no_native_form() -> None:
    """One that inherited its parent's would be verified by compiled code as its parent."""

    class Strict(Tolerance):
        def accept(self, *given: Tensor) -> Tensor:
            return super().accept(*given) & False

    given = verification_of(*ALL, 4, 0)
    assert speculation.native_rule(Tolerance(9.0)) is not None
    assert speculation.native_rule(Strict(9.0)) is None
    assert speculation.verify(Tolerance(9.0), *given).accepted.any()
    assert not speculation.verify(Strict(9.0), *given).accepted.any()
