"""Rules over drafts of a block drafter (DFlash, DSpark), against the target's own laws or theirs.

The target is decoded by the fastest kernels there are: drafts are torch's either way.
"""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from block_folders import BLOCK, FLOAT, load_block, save_block
from group_laws import Cover
from reference import Passes
from rule_laws import CASES, ByMasses, Case
from scipy.stats import chi2, ncx2
from shared_prompts import shared_prompts
from small_target import LAYOUT, save_target
from torch import Tensor

from speculative_tts.checks.chi_square import FALSE_ALARM, chi_square
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.block import BlockDrafter, BlockDrafting
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.block_head import Chain
from speculative_tts.models.families.merged_vocab import MergedVocabLM

CPU = torch.device("cpu")
STOPS = LAYOUT.stop_ids
EXACT = Tolerance(0.0)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    save_target(folder, "qwen3")
    return folder


LONG, MANY = 3, 8_000  # tokens, utterances
MISSED = 1e-6  # chance that the control overlooks its fault


def same_requests(model: MergedVocabLM, number: int) -> list[Request]:
    """Return requests of one prompt, which differ in their random numbers alone."""
    prompt = model.prompt([LAYOUT.sos_id, LAYOUT.text_offset, LAYOUT.task_id])
    return [Request(f"u{n}", prompt, None, LONG, LONG, 0) for n in range(number)]


def spoken(
    drafter: BlockDrafter, rows: list[Request], rule: AcceptanceRule = EXACT
) -> list[Outcome]:
    """Decode by this rule, two drafted tokens a round, 500 rows at a time."""
    given = (drafter.verifier, drafter, rule, Sampler(), STOPS, 2)
    batches = (rows[begin : begin + 500] for begin in range(0, len(rows), 500))
    with shared_prompts():
        return [one for batch in batches for one in Speculation(*given).decode(batch)]


def chi_squared(drafter: BlockDrafter, target: Path) -> tuple[float, float]:
    """Chi-square of the second and third tokens against the target's law, and its bound.

    A round's drafts begin with the second token. False alarms: 1e-9. Of 8,000 utterances in the 54
    cells of this target an effect of 0.15 (root of the sum of (q - p)^2 / p) is missed in fewer
    than one of a thousand runs.
    """
    model = MergedVocabLM.load(target, **FLOAT)
    rows = same_requests(model, MANY)
    counts, accepted = np.zeros((model.vocab_size, model.vocab_size)), 0
    for one in spoken(drafter, rows):
        counts[one.tokens[1], one.tokens[2]] += 1
        accepted += one.counts.accepted
    assert accepted > 0.05 * MANY
    first, second, third = (laws(model, rows[0], number) for number in range(3))
    pairs = torch.einsum("a,ab,abc->bc", first, second, third)
    return chi_square(counts.ravel(), pairs.numpy().ravel())


def laws(model: MergedVocabLM, row: Request, number: int) -> Tensor:
    """Return the target's law after each `number` tokens, float64 [ids, ..., ids]."""
    chain, ids = Passes(model, Sampler(), STOPS, row), range(model.vocab_size)
    found = [chain.next(tokens) for tokens in product(ids, repeat=number)]
    return torch.tensor(found, dtype=torch.float64).view([len(ids)] * (number + 1))


@pytest.mark.parametrize("kind", ["dflash", "dspark, rnn", "dspark, few"])
def test_the_exact_rule_is_exact(kind: str, target: Path, tmp_path: Path) -> None:
    save_block(tmp_path, target, kind)
    statistic, bound = chi_squared(load_block(target, tmp_path), target)
    assert statistic < bound


def grouped(vocab: int) -> ByMasses:
    """Return the group rule over overlapping groups of three neighbouring ids."""
    members = tuple(tuple(sorted({(n + k) % vocab for k in range(3)})) for n in range(vocab))
    cover = Cover(vocab, members, (1.0,) * vocab)
    return ByMasses(cover.rule(), cover.masses)


RULES = ("tolerance", "group", "typical", "top", "divergence")  # two more know six ids alone


@pytest.mark.parametrize("kind", ["dflash", "dspark"])
@pytest.mark.parametrize("name", RULES)
def test_other_rules_follow_their_own_laws(
    name: str, kind: str, target: Path, tmp_path: Path
) -> None:
    """The law of the second token that the rule's paper says, worked out token by token.

    False alarms: 1e-9 each. As a control the target's own law is not followed: of 2,000 tokens, or
    of more by the rule that strays least from it.
    """
    save_block(tmp_path, target, kind)
    drafter, model = load_block(target, tmp_path), MergedVocabLM.load(target, **FLOAT)
    case: Case = grouped(drafter.head.vocab) if name == "group" else CASES[name][0]
    rows = same_requests(model, MANY if name == "top" else 2_000)
    first, second = (laws(model, rows[0], number) for number in range(2))
    drafts = first_drafts(drafter, rows[0])
    emitted = [
        np.sum(case.masses(q, p), 0) for q, p in zip(second.tolist(), drafts.tolist(), strict=True)
    ]
    found = [one.tokens[1] for one in spoken(drafter, rows, case.rule)]
    seen = np.bincount(found, minlength=len(first))
    statistic, bound = chi_square(seen, first.numpy() @ np.array(emitted))
    assert statistic < bound
    statistic, bound = chi_square(seen, (first @ second).numpy())
    assert statistic > bound


def misstate(drafts: Tensor, share: float) -> Tensor:
    """Mix a uniform distribution into the drafts' distributions."""
    return (1 - share) * drafts + share / drafts.shape[-1]


def verified(drafts: Tensor, target: Tensor, share: float) -> Tensor:
    """Return the law of a token drawn from `drafts` and verified by `misstate(drafts, share)`."""
    told = misstate(drafts, share)
    passed = drafts * (target / told).clamp(max=1)
    rest = (target - told).clamp(min=0)
    return passed + (1 - passed.sum(-1, keepdim=True)) * rest / rest.sum(-1, keepdim=True)


def least_share(drafts: Tensor, first: Tensor, second: Tensor, number: int) -> float:
    """Return the least misstatement that `number` second tokens show but for a chance `MISSED`.

    The chi-square of the faulty law's expected counts is the noncentrality of the statistic. With
    all ids for its cells (fewer, pooled ones find more) the test has the power of `ncx2`.
    """
    law, freedom = (first @ second).numpy(), len(first) - 1
    bound = chi2.isf(FALSE_ALARM, freedom)
    for share in np.linspace(0.02, 1, 50):
        counts = number * (first @ verified(drafts, second, share)).numpy()
        noncentrality, _ = chi_square(counts, law)
        if ncx2.cdf(bound, freedom, noncentrality) <= MISSED:
            return float(share)
    raise AssertionError(f"{number} tokens show no misstatement; give more")


def test_a_fault_of_the_least_size_with_that_power_is_found(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: drafts whose distributions are told a little flatter than they are.

    Of 4,000 second tokens, a false alarm in 1e9 and a miss in 1e6, the least fault that the test
    can find is computed from the laws alone, before any draw, and then planted: output then follows
    the law of that fault, worked out in `verified`.
    """
    number, honest = 4_000, BlockDrafting.propose
    save_block(tmp_path, target, "dspark")
    drafter, model = load_block(target, tmp_path), MergedVocabLM.load(target, **FLOAT)
    rows = same_requests(model, number)
    first, second = (laws(model, rows[0], number) for number in range(2))
    drafts = first_drafts(drafter, rows[0])
    share = least_share(drafts, first, second, number)

    def flatter(*given: Any) -> tuple[Tensor, Tensor]:
        drafted, told = honest(*given)
        return drafted, misstate(told, share)

    law, faulty = (first @ second).numpy(), (first @ verified(drafts, second, share)).numpy()
    monkeypatch.setattr(BlockDrafting, "propose", flatter)
    seen = np.bincount([one.tokens[1] for one in spoken(drafter, rows)], minlength=len(law))
    statistic, bound = chi_square(seen, law)
    assert statistic > bound
    statistic, bound = chi_square(seen, faulty)
    assert statistic < bound


@torch.inference_mode()
def first_drafts(drafter: BlockDrafter, row: Request) -> Tensor:
    """Return the drafter's law of the second token after each first one, float64 [ids, ids]."""
    cache = drafter.verifier.cache(1, len(row.prompt) + BLOCK)
    drafter.verifier.prefill_hidden([row.prompt], cache)
    start = torch.tensor([len(row.prompt)])
    stop = StopRule.build(STOPS, drafter.head.vocab, [LONG], CPU)
    found = []
    for token in torch.arange(drafter.head.vocab)[:, None]:
        states = drafter.draft(drafter.head.inputs(token), cache.context, start)
        logits = Chain(drafter.head, states, first=BLOCK - drafter.reach)(token)
        found.append(Sampler()(logits[:, None], token[None], torch.tensor([[1]]), stop)[0, 0])
    return torch.stack(found).double()
