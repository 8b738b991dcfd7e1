"""Targets whose codes come in frames, through the real loops on many keyed utterances: the mask of
a position's ids is part of the law that target and draft are verified by.

n = 20,000 utterances (8,000 of the compiled engine); 8 chi-squares of false-alarm rate 1e-9 each
(see `test_exactness`). Seeds are fixed.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from decoders import HIDDEN, LAYERS, build, state
from decoders import STOPS as ENDS
from goodness import mismatches
from group_laws import Cover, TokenResidual
from head_stubs import Embedded, by_heads, by_layer
from reference import (
    Passes,
    autoregressive_law,
    law_of,
    speculative_law,
    tolerance_masses,
)
from shared_prompts import shared_prompts
from stubs import request, speculative
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.blocks.choosers import IndependentHeads
from speculative_tts.decoding.drafters.lm import LMDrafter, LMDrafting
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.slots import Slots

N = 20_000
STOPS = (5,)
FRAMES = Slots((2, 3))  # codes 0 and 1, then 2 to 4; 5 ends the speech after whole frames
SAMPLERS = {
    "frames": Sampler(0.8, 5, 0.95, slots=FRAMES),
    "ends anywhere": Sampler(0.8, 0, 1.0, slots=replace(FRAMES, end_in_frame=True)),
    "penalty": RepetitionPenalty(0.8, 5, 0.95, 1.3, slots=FRAMES),
}
SAMPLER = SAMPLERS["frames"]
TARGET = Embedded.random(6, seed=3, scale=1.0)
DRAFT = TARGET.near(4, distance=0.8)
ONE = request(minimum=2, maximum=6)
MANY = [request(f"utterance {row}", minimum=2, maximum=6) for row in range(N)]
COVER = Cover(6, ((0, 1), (0,), (2, 3), (3, 4), (5,)), (1.0, 2.0, 0.5, 1.0, 1.0))  # within slots
LAW = autoregressive_law(TARGET, SAMPLER, STOPS, ONE)


def by_model(rule: AcceptanceRule, sampler: Sampler = SAMPLER) -> list[Outcome]:
    return speculative(TARGET, DRAFT, rule, STOPS, sampler, 3, MANY)


DRAFTED: dict[str, Callable[[], list[Outcome]]] = {
    "a model": lambda: by_model(Tolerance(0.0)),
    "heads": lambda: by_heads(
        TARGET, IndependentHeads(SAMPLER), Tolerance(0.0), STOPS, SAMPLER, 3, MANY
    ),
    "a layer": lambda: by_layer(TARGET, Tolerance(0.0), STOPS, SAMPLER, 3, MANY),  # type: ignore[arg-type]
    "nobody": lambda: autoregressive(TARGET, STOPS, SAMPLER, MANY),
}


@pytest.mark.parametrize("name", DRAFTED)
def test_the_exact_rule_follows_the_masked_target(name: str) -> None:
    """8 comparisons; as a control the target without the mask is another law."""
    found = DRAFTED[name]()
    assert mismatches(found, LAW) == []
    free = autoregressive_law(TARGET, replace(SAMPLER, slots=None), STOPS, ONE)
    assert mismatches(found, free)


def test_an_end_within_a_frame_is_another_law() -> None:
    """8 comparisons, and the same output against frames that only end whole."""
    sampler = SAMPLERS["ends anywhere"]
    found = by_model(Tolerance(0.0), sampler)
    assert mismatches(found, autoregressive_law(TARGET, sampler, STOPS, ONE)) == []
    whole = replace(sampler, slots=FRAMES)
    assert mismatches(found, autoregressive_law(TARGET, whole, STOPS, ONE))


def test_a_tolerance_follows_its_law_within_slots() -> None:
    """8 comparisons with the rule's law and, as a control, 8 with the target's."""
    law = speculative_law(TARGET, DRAFT, partial(tolerance_masses, 0.4), 3, SAMPLER, STOPS, ONE)
    found = by_model(Tolerance(0.4))
    assert mismatches(found, law) == []
    assert mismatches(found, LAW)


def test_groups_follow_their_law_within_slots() -> None:
    """8 comparisons; as controls the target's law, and a residual of tokens."""
    law = speculative_law(TARGET, DRAFT, COVER.masses, 3, SAMPLER, STOPS, ONE)
    found = by_model(COVER.rule())
    assert mismatches(found, law) == []
    assert mismatches(found, LAW)
    assert mismatches(by_model(COVER.rule(TokenResidual)), law)


def mask_left_out(patch: pytest.MonkeyPatch) -> None:
    """The rule sees the draft's law without the mask that its tokens were drawn with."""
    real = LMDrafting.propose

    def propose(
        self: LMDrafting, rows: BatchState, sampler: Sampler, lookahead: int
    ) -> tuple[Tensor, Tensor]:
        drafted, laws = real(self, rows, sampler, lookahead)
        said = torch.cat([torch.tensor([[0, 1]]).expand(len(rows.count), -1), rows.tokens], 1)
        at = rows.positions(laws.shape[1])
        logits = DRAFT.table[said.gather(1, at).clamp(max=5), said.gather(1, at + 1).clamp(max=5)]
        return drafted, replace(sampler, slots=None)(logits, rows.tokens, at, rows.stop)

    patch.setattr(LMDrafting, "propose", propose)


def test_a_mask_left_out_of_the_drafts_law_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the residual then takes away what the draft never had there."""
    mask_left_out(monkeypatch)
    assert mismatches(by_model(Tolerance(0.0)), LAW)


THIRDS = Slots((13, 12, 13))  # of 38 codes; 38 and 39 are ends
NATIVE = {
    "frames": Sampler(0.9, 3, 1.0, slots=THIRDS),
    "penalty": RepetitionPenalty(0.9, 3, 1.0, 1.4, slots=THIRDS),
}


def compiled(sampler: Sampler, rule: AcceptanceRule, number: int) -> tuple[list[Outcome], Passes]:
    """So many utterances of one prompt by native rounds, and the target's own laws."""
    weights = state(3)
    target, draft = build(weights), build(weights, (0, 2, LAYERS - 1))
    prompt = torch.randn(4, HIDDEN, generator=torch.Generator().manual_seed(1))
    many = [Request(f"utterance {row}", prompt, None, 0, 5, 0) for row in range(number)]
    with shared_prompts():
        found = Speculation(target, LMDrafter(draft), rule, sampler, ENDS, 2).decode(many)
    assert all(outcome.split is not None for outcome in found)  # clocked by native rounds
    return found, Passes(target, sampler, ENDS, many[0])


@pytest.mark.native
@pytest.mark.parametrize("name", NATIVE)
def test_the_compiled_engine_follows_the_masked_target(name: str) -> None:
    """n = 8,000, 8 comparisons of false-alarm rate 1e-9 each; as a control a tolerance of 0.4,
    which 1,000 show.
    """
    found, laws = compiled(NATIVE[name], Tolerance(0.0), 8_000)
    law = law_of(laws, ENDS, 5)
    assert 0.2 < sum(o.counts.accepted for o in found) / sum(o.counts.drafted for o in found) < 0.95
    assert mismatches(found, law) == []
    assert mismatches(compiled(NATIVE[name], Tolerance(0.4), 1_000)[0], law)
