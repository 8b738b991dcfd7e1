"""Codes in frames: which ids a position may hold, in every sampler, loop, drafter and rule."""

from dataclasses import replace

import pytest
import torch
from computing import computing
from decoders import HIDDEN, STOPS, VOCAB, build, requests, state
from group_laws import Cover
from head_stubs import layer_tensors
from stubs import Markov, request
from test_native_laws import SAMPLERS as EVERY
from torch import Tensor

from speculative_tts.decoding.drafters.drafter import Drafter
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.drafters.lookup import LookupDrafter
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models import host
from speculative_tts.models.recurrent import RecurrentLayer
from speculative_tts.models.slots import Slots
from speculative_tts.schema.decode import Kernels

CPU = torch.device("cpu")
FRAMES = Slots((13, 12, 13))  # the 38 codes of `decoders`
SAMPLERS = {
    "all": Sampler(slots=FRAMES),
    "greedy": Sampler(0.0, slots=FRAMES),
    "top-k and top-p": Sampler(0.9, 12, 0.9, slots=FRAMES),
    "ends when likeliest": Sampler(1.0, 20, 1.0, end_when_likeliest=True, slots=FRAMES),
    "penalty": RepetitionPenalty(0.9, 12, 0.9, 1.3, slots=FRAMES),
    "ras": RepetitionAware(1.0, 10, 0.8, window=6, tau=0.2, slots=FRAMES),
}
PAIRS = ((0, 1), (5, 6), (13, 14), (20, 21), (25, 26), (30, 31))  # of similar codes, within slots
ALONE = sorted({*range(VOCAB)} - {token for pair in PAIRS for token in pair})
GROUPED = (*PAIRS, *((token,) for token in ALONE))
WITHIN = Cover(VOCAB, GROUPED, (1.0,) * len(GROUPED))
RULES = {"exact": Tolerance(), "tolerance": Tolerance(0.4), "groups": WITHIN.rule()}


def test_a_position_holds_ids_of_its_slot_and_ends_at_the_beginning_of_a_frame() -> None:
    slots = Slots((2, 3))
    allowed = ~slots.barred(torch.arange(4)[None], 7)[0]
    assert [row.nonzero()[:, 0].tolist() for row in allowed] == [
        [0, 1, 5, 6], [2, 3, 4], [0, 1, 5, 6], [2, 3, 4],
    ]  # fmt: skip
    anywhere = ~replace(slots, end_in_frame=True).barred(torch.tensor([[1]]), 7)[0, 0]
    assert anywhere.nonzero()[:, 0].tolist() == [2, 3, 4, 5, 6]
    assert slots.ranges == (range(2), range(2, 5))
    slots.check_whole(4)
    with pytest.raises(ValueError, match="3 codes, which is no whole number of frames of 2; enc"):
        slots.check_whole(3)


FRAMES = {
    "codes of another order": ([2, 0], "code 0 to learn from is 2; position 0 .* holds 0 to 1"),
    "codes that lack their codebook's offset": ([1, 1], "code 1 .* is 1; position 1 .* 2 to 4"),
    "half a frame": ([0, 2, 1], "has 3 codes, which is no whole number of frames of 2"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_codes_to_learn_from_are_frames(name: str) -> None:
    """Bug: a drafter was trained on codes of the wrong codebooks, in silence."""
    Slots((2, 3)).check_frames([1, 4, 0, 2])
    codes, message = FRAMES[name]
    with pytest.raises(ValueError, match=message):
        Slots((2, 3)).check_frames(codes)


@pytest.mark.native
@pytest.mark.parametrize("end_in_frame", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_native_laws_equal_their_references(name: str, end_in_frame: bool) -> None:
    """To 1e-6; no id of another slot has mass."""
    slots = Slots((700, 900, 447), end_in_frame)
    sampler = replace(EVERY[name], slots=slots)
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(3, 4, 2049, generator=generator)
    history = torch.randint(0, 2049, (3, 40), generator=generator)
    positions = torch.tensor([[0], [9], [31]]) + torch.arange(4)
    prompted = [(5, 800), (), (2048,)]
    stop = StopRule.build((2047, 2048), 2049, [2, 0, 33], CPU, prompted)
    given = logits, history, positions, stop
    ours = sampler(*given)
    with computing(Kernels.torch):
        theirs = sampler(given[0].double(), *given[1:])
    assert (ours - theirs).abs().max() < 1e-6
    assert not ours[slots.barred(positions, 2049)].any()
    torch.testing.assert_close(ours.sum(-1), torch.ones(3, 4), rtol=0, atol=1e-5)


def drafters() -> dict[str, Drafter]:
    weights = state(3)
    target, draft = build(weights), build(weights, (0, 2, 5))
    layer = RecurrentLayer(layer_tensors(HIDDEN), target.head, torch.int8)
    return {
        "lm": LMDrafter(draft),
        "lm, adaptive": LMDrafter(draft, entropy=1.5),
        "recurrent in 8 bits": RecurrentDrafter(target, layer),
        "lookup": LookupDrafter(VOCAB, CPU),
    }


def spoken(drafter: str, name: str, rule: AcceptanceRule, count: int = 6) -> list[Outcome]:
    target, sampler = build(state(3)), SAMPLERS[name]
    made = Speculation(target, drafters()[drafter], rule, sampler, STOPS, 4)
    return made.decode(requests(count))


def in_frames(outcomes: list[Outcome]) -> bool:
    """True if each token lies in its slot, and only whole frames end."""
    begins = (0, 13, 25, 38)
    for outcome in outcomes:
        for position, token in enumerate(outcome.tokens):
            slot = position % 3
            own = begins[slot] <= token < begins[slot + 1]
            if not own and not (token in STOPS and slot == 0):
                return False
    return True


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("drafter", ["lm", "lm, adaptive", "recurrent in 8 bits", "lookup"])
def test_no_rule_and_no_drafter_leaves_a_slot(drafter: str, rule: str) -> None:
    """A tolerance accepts what the target cannot say if a draft does."""
    found = spoken(drafter, "all", RULES[rule])
    assert in_frames(found)
    assert sum(len(outcome.tokens) for outcome in found) > 60
    drafted = sum(outcome.counts.drafted for outcome in found)
    assert drafter == "lookup" or drafted > 30


def test_steps_that_nobody_may_look_into_have_the_same_law() -> None:
    """As a GPU's, which are captured: nothing is kept from before."""
    logits = torch.randn(2, 3, VOCAB, generator=torch.Generator().manual_seed(0)).double()
    positions = torch.arange(3).expand(2, 3)
    stop = StopRule.build(STOPS, VOCAB, [0, 0], CPU)
    given = (logits, torch.zeros(2, 9, dtype=torch.int64), positions, stop)
    plain = SAMPLERS["all"](*given)
    with host.fixed():
        assert torch.equal(SAMPLERS["all"](*given), plain)


def test_greedy_speech_in_frames_is_the_argmax_within_each() -> None:
    """A control: without the mask the same chain leaves its slots."""
    chain, slots = Markov.random(6, seed=3), Slots((2, 3))
    (masked,) = autoregressive(chain, (5,), Sampler(0.0, slots=slots), [request(maximum=8)])
    (free,) = autoregressive(chain, (5,), Sampler(0.0), [request(maximum=8)])

    def expected() -> list[int]:
        out: list[int] = [0, 1]
        while len(out) < 10 and out[-1] != 5:
            row: Tensor = chain.table[out[-2], out[-1]].clone()
            row[[2, 3, 4] if len(out) % 2 == 0 else [0, 1, 5]] = -torch.inf
            out.append(int(row.argmax()))
        return out[2:]

    assert masked.tokens == expected()
    assert free.tokens != masked.tokens
