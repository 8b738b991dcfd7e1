"""The shipped heads and recurrent layer under `rule=exact`: outputs follow the target's law.

The target's own laws of all outputs of four tokens, each one of its 4 likeliest, by the reference
sampler; n = 2,000 utterances against the joint laws of the first and of the last three tokens, by
chi-squares whose false-alarm rate is 1e-9 each.
"""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
import torch
from faults import NoResidual
from goodness import chi_square
from reference import Law, Passes, at, law_of, marginal
from shared_prompts import shared_prompts

from speculative_tts.commands.decode import main
from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling.randomness import ACCEPT, DRAFT
from speculative_tts.models.prompt import Prompt

N, BATCH, LONGEST = 2000, 250, 4
THREE = ((0, 1, 2), (1, 2, 3))
ASKED = Prompt("alpha seven", "bravo", torch.arange(100, 112))
DRAWN, ALONE = "drafter=heads viterbi.mode=sample", "drafter=heads viterbi.mode=none"
LAYER = "drafter=recurrent"


@cache
def engine(drafter: str) -> Engine:
    own = ["rule=exact", "lookahead=3", "sampling.top_k=4", "sampling.top_p=1"]
    return Builder(main.compose([*own, *drafter.split()])).engine()


@cache
def target_law() -> Law:
    made = engine(DRAWN)
    asked = replace(made.request("law", ASKED, 0), min_tokens=0, max_tokens=LONGEST)
    return law_of(Passes(made.target, made.sampler, made.stop_ids, asked), made.stop_ids, LONGEST)


def spoken(drafter: str, rule: AcceptanceRule, number: int = N) -> list[Outcome]:
    made = engine(drafter)
    assert made.speculation is not None
    changed = replace(made.speculation, rule=rule)
    one = replace(made.request("", ASKED, 1), min_tokens=0, max_tokens=LONGEST)
    rows = [replace(one, id=f"u{row}") for row in range(number)]
    batches = [rows[begin : begin + BATCH] for begin in range(0, number, BATCH)]
    with shared_prompts():
        return [outcome for batch in batches for outcome in changed.decode(batch)]


def found_wrong(found: list[Outcome]) -> list[tuple[int, ...]]:
    """Places whose joint law is not the target's."""
    wrong = []
    for places in THREE:
        counts = Counter(at(outcome.tokens, places) for outcome in found)
        statistic, bound = chi_square(counts, marginal(target_law(), places))
        if statistic > bound:
            wrong.append(places)
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("drafter", [DRAWN, ALONE, LAYER])
def test_verified_drafts_follow_the_law_of_the_shipped_target(drafter: str) -> None:
    found = spoken(drafter, Tolerance())
    counts = [outcome.counts for outcome in found]
    rate = sum(one.accepted for one in counts) / sum(one.drafted for one in counts)
    assert 0.1 < rate < 0.9  # both branches are used
    assert found_wrong(found) == []


loaded = BatchState.load


def one_uniform_for_both(rows: BatchState, requests: list[Request]) -> None:
    """A token is accepted by the uniform that it was drawn with."""
    loaded(rows, requests)
    rows.uniforms[..., ACCEPT] = rows.uniforms[..., DRAFT]


FAULTS = {  # and of how many utterances they are found
    "a tolerance": (Tolerance(0.4), 250),
    "no residual": (NoResidual(Tolerance()), N),
    "acceptance reuses": (Tolerance(), N),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found_in_the_shipped_models_too(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative controls: other rules; the uniforms of the draft's draw, which native rounds read
    too."""
    if fault == "acceptance reuses":
        monkeypatch.setattr(BatchState, "load", one_uniform_for_both)
    assert found_wrong(spoken(DRAWN, *FAULTS[fault]))
