"""Kernels of distributions and draws beside torch's, interpreted where there is no GPU."""

from functools import partial

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from planted import finds
from torch import Tensor
from triton_tests import DEVICE, needs_triton

from speculative_tts.decoding.gpu import draws, laws
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule, settings_of
from speculative_tts.models.slots import Slots
from speculative_tts.native.sample import Places
from speculative_tts.schema.decode import Repetition

pytestmark = needs_triton
FEW = examples(2)
SAMPLERS = [
    Sampler(0.8),
    Sampler(0.0),
    Sampler(0.7, 0, 0.8),
    Sampler(1.0, 0, 0.95, end_when_likeliest=True),
    Sampler(0.8, 20),
    Sampler(0.9, 12, 0.9),
    Sampler(1.0, 20, 1.0, end_when_likeliest=True),
    Sampler(end_when_likeliest=True),
    RepetitionAware(0.9, 10, 0.8, barred=(28,)),
    RepetitionAware(1.0, 25, 0.999, window=6, tau=0.3),
    RepetitionAware(0.9, 10, 0.8, variant=Repetition.redraw_eos, barred=(28,)),
    RepetitionAware(1.0, 10, 0.8, tau=0.2, variant=Repetition.redraw_stops),
    RepetitionPenalty(0.9, 12, 0.9, penalty=1.3),
    RepetitionPenalty(1.0, 0, 0.8, penalty=1.3, slots=Slots((9, 8, 8))),
    Sampler(0.8, slots=Slots((5, 4), end_in_frame=True)),
]


def logits_of(vocab: int, seed: int) -> Tensor:
    """Two rows of three positions: ties, a likeliest stop id, one possible id, NaN."""
    made = 3 * torch.randn(2, 3, vocab, generator=torch.Generator().manual_seed(seed))
    made[0, 0, 5:7] = made[0, 0].max() + 1
    made[0, 2, -1] = made[0, 2].max() + 1  # a stop id
    made[1, 1] = float("-inf")
    made[1, 1, 3] = 0.0
    made[1, 2, 0] = float("nan")
    return made.to(DEVICE)


def both(sampler: Sampler, logits: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Distributions by torch and by kernels, with stops barred early and repeated ids."""
    vocab, generator = logits.shape[-1], torch.Generator().manual_seed(seed)
    positions = torch.tensor([[0, 1, 2], [20, 21, 22]])
    history = torch.randint(vocab, (2, 30), generator=generator)
    history[1, 14:19] = logits[1, 0].cpu().topk(5).indices
    stop = StopRule.build((vocab - 2, vocab - 1), vocab, [2, 25], DEVICE)
    history, positions = history.to(DEVICE), positions.to(DEVICE)
    places = Places(
        history, positions, stop.minimum, stop.is_stop, sampler.barred_of(stop), stop.prompted
    )
    found = laws.law(settings_of(sampler), logits, places)
    assert found is not None
    by_torch = sampler.law(logits, history, positions, stop)
    if sampler.end_when_likeliest:
        by_torch = sampler(logits.double(), history, positions, stop).float()
    return by_torch, found


def agree(by_torch: Tensor, found: Tensor) -> bool:
    """Equal to 1e-6, and lawless in the same rows."""
    lawless = by_torch.isnan().any(-1)
    if not torch.equal(lawless, found.isnan().any(-1)):
        return False
    return bool((by_torch - found)[~lawless].abs().max() < 1e-6)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
@FEW
@given(vocab=st.sampled_from([29, 64, 130]), seed=st.integers(0, 99))
def test_distributions_are_torchs(sampler: Sampler, vocab: int, seed: int) -> None:
    assert agree(*both(sampler, logits_of(vocab, seed), seed))


@pytest.mark.parametrize(
    "sampler",
    [
        Sampler(0.0),
        Sampler(1.0, 50, 0.9),
        Sampler(1.0, 0, 0.9, end_when_likeliest=True),
        RepetitionAware(1.0, 20, 0.95, window=6, tau=0.1),
        RepetitionAware(1.0, 20, 0.95, window=6, tau=0.1, variant=Repetition.redraw_eos),
        RepetitionPenalty(1.0, penalty=1.3, slots=Slots((80, 60))),
    ],
    ids=str,
)
def test_a_vocabulary_wider_than_a_program(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read tile by tile, or by programs of a part each whose likeliest another one joins."""
    monkeypatch.setattr(laws, "PART", 64)
    monkeypatch.setattr(laws, "TILE", 64)
    assert agree(*both(sampler, logits_of(150, 3), 3))


def test_samplers_without_a_kernel_are_left_to_torch() -> None:
    """Top-k beyond what a program ranks, repetition-aware of all ids."""
    logits = logits_of(130, 0)
    stop = StopRule.build((129,), 130, [0, 0], DEVICE)
    history = torch.zeros(2, 30, dtype=torch.int64, device=DEVICE)
    positions = torch.zeros(2, 3, dtype=torch.int64, device=DEVICE)
    places = Places(history, positions, stop.minimum, stop.is_stop, stop.is_stop, stop.prompted)
    for sampler in (Sampler(1.0, 100), RepetitionAware(1.0, 0)):
        assert laws.law(settings_of(sampler), logits, places) is None


@FEW
@given(vocab=st.sampled_from([5, 255, 256, 1100]), seed=st.integers(0, 99))
def test_draws_are_torchs(vocab: int, seed: int) -> None:
    """Also at both ends, of one possible id, and without a distribution (all 0, NaN)."""
    generator = torch.Generator().manual_seed(seed)
    probs = torch.rand(8, vocab, generator=generator) ** 8
    probs[2], probs[3, 0], probs[4] = 0, float("nan"), 0
    probs[4, vocab // 2] = 1
    probs[7] = torch.rand(vocab, generator=generator).gt(0.9)
    probs = probs / probs.sum(-1, keepdim=True)
    probs[2] = 0
    uniform = torch.rand(8, dtype=torch.float64, generator=generator)
    uniform[5], uniform[6] = 0.0, 1 - 2.0**-53
    cumulative = probs.cumsum(-1, dtype=torch.float64)
    level = uniform[:, None] * cumulative[:, -1:]
    wanted = torch.searchsorted(cumulative, level, right=True)[:, 0]
    found = draws.draw(probs.to(DEVICE), uniform.to(DEVICE)).cpu()
    assert torch.equal(found, wanted)


def test_no_level_draws_a_token_without_mass() -> None:
    """Ids between gaps wider than a line, at levels that rounding may put beyond a sum."""
    probs = torch.zeros(64, 1000)
    probs[:, [3, 400, 999]] = torch.tensor([0.1, 0.7, 0.2])
    uniform = torch.linspace(0, 1 - 2.0**-53, 64, dtype=torch.float64)
    found = draws.draw(probs.to(DEVICE), uniform.to(DEVICE)).cpu()
    assert set(found.tolist()) == {3, 400, 999}


@pytest.mark.parametrize("vocab", [draws.MANY + 1, 65_537])
def test_draws_of_many_ids_sum_in_float64(vocab: int) -> None:
    """Lines of 1,024, as LLaSA's 65,537 codes have. Sums in float32 draw others."""
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(4, vocab, generator=generator) + 0.1
    probs = probs / probs.sum(-1, keepdim=True)
    cumulative = probs.cumsum(-1, dtype=torch.float64)
    places = torch.randint(vocab, (4,), generator=generator)
    ends = cumulative.gather(1, places[:, None])[:, 0]
    uniform = ends * (1 - 1e-12) / cumulative[:, -1]  # just before the end of a token's share
    found = draws.draw(probs.to(DEVICE), uniform.to(DEVICE)).cpu()
    assert torch.equal(found, places)
    single = probs.cumsum(-1)
    rough = torch.searchsorted(single, uniform.float()[:, None] * single[:, -1:], right=True)
    assert not torch.equal(rough[:, 0], places)


def test_equal_tokens_enter_the_nucleus_by_id() -> None:
    """Four of five that are alike reach 0.8, and then no more do; torch's top-k has no order."""
    logits = torch.zeros(1, 1, 10, device=DEVICE)
    logits[..., 5:] = float("-inf")
    stop = StopRule.build((9,), 10, [0], DEVICE)
    none = torch.zeros(1, 1, dtype=torch.int64, device=DEVICE)
    places = Places(none, none, stop.minimum, stop.is_stop, stop.is_stop, stop.prompted)
    found = laws.law(settings_of(Sampler(1.0, 0, 0.79)), logits, places)
    assert found is not None
    assert found.flatten().tolist() == pytest.approx([0.25] * 4 + [0] * 6)


AGAIN = RepetitionAware(1.0, 25, 0.999, window=6, tau=0.1)
OLDER = RepetitionAware(0.9, 20, 0.95, tau=0.1, variant=Repetition.redraw_stops)
PENALTY = RepetitionPenalty(1.0, penalty=1.3)
FRAMES = RepetitionPenalty(1.0, 0, 0.8, penalty=1.3, slots=Slots((9, 8, 8)))
STORED = """tl.float32), p)
        tl.store(target + v, tl.where(lawless, float("nan"), p), mask=v < vocab"""
FAULTS = [  # in which module, what stands there, what is planted, the sampler that shows it
    ("laws", "(v == likeliest).to", "(v == likeliest + 1).to", Sampler(end_when_likeliest=True)),
    ("laws", STORED, STORED.replace("vocab", "vocab - 1"), Sampler()),
    ("laws", "last & (ahead < top_p)", "last & (ahead > top_p)", Sampler(0.7, 0, 0.8)),
    ("laws", "28 - 2 * pair", "26 - 2 * pair", Sampler(0.7, 0, 0.8)),
    ("likeliest", "ahead = (other > mine) |", "ahead = (other >= mine) |", Sampler(0.9, 12, 0.9)),
    ("likeliest", "tl.where(place == 0, 1.0, 0.0)", "p", Sampler(1.0, 20, end_when_likeliest=True)),
    ("likeliest", "ahead < top_p, p, 0.0", "ahead + p < top_p, p, 0.0", Sampler(0.9, 12, 0.9)),
    ("likeliest", "range(16)", "range(15)", Sampler(0.8, 20)),
    ("likeliest", "inside = v < vocab", "inside = v < vocab - 1", Sampler(0.8, 20)),
    ("logits", "mask=inside & early, other=0) != 0", "mask=inside & early, other=0) > 1",
     Sampler(0.8)),
    ("logits", "past = at < position", "past = at <= position", PENALTY),
    ("logits", "(v >= begin) & (v < end)", "(v >= begin) & (v <= end)", FRAMES),
    ("logits", "x * said.penalty, x / said.penalty", "x / said.penalty, x / said.penalty", PENALTY),
    ("repetition", "position - WINDOW + back\n", "position - WINDOW + back + 1\n", AGAIN),
    ("repetition", "other = tl.where(first, 0.0,", "other = tl.where(real & (place < 0), 0.0,",
     AGAIN),
    ("repetition", "mass * shares - mass * share", "mass * shares", AGAIN),
    ("repetition", "v == best, float(\"-inf\"), x", "v == best, x, x", AGAIN),
    ("repetition", "law = tl.where(bar, 0.0, law)", "law = law", OLDER),
]  # fmt: skip


def differs(sampler: Sampler) -> bool:
    return not agree(*both(sampler, logits_of(29, 1), 1))


test_a_planted_fault_is_found = finds((*fault, partial(differs, one)) for *fault, one in FAULTS)
