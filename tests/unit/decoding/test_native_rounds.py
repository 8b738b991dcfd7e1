"""Tokens and rounds in one native call are those of the loops in Python, whoever drafts."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from computing import computing
from decoders import CPU, HIDDEN, LAYOUT, STOPS, VOCAB, build, requests, state
from group_laws import random_cover
from head_stubs import layer_tensors
from pairwise import pairwise
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters import lm
from speculative_tts.decoding.drafters.drafter import Drafter
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.drafters.lookup import LookupDrafter
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter
from speculative_tts.decoding.loops import one_by_one as loops
from speculative_tts.decoding.loops import speculation
from speculative_tts.decoding.loops.graphs import EAGER
from speculative_tts.decoding.loops.native_steps import sampled_steps
from speculative_tts.decoding.loops.observer import Observer
from speculative_tts.decoding.loops.speculation import Rounds, Speculation
from speculative_tts.decoding.outcome import Outcome, Round
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.rules.block import BlockRule
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.decoder.matrix import matrix
from speculative_tts.models.families.code_rows import RowLM
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.recurrent import RecurrentLayer
from speculative_tts.models.slots import Slots
from speculative_tts.schema.decode import Kernels

pytestmark = pytest.mark.native
PLAIN = {
    "all": Sampler(),
    "greedy": Sampler(0.0),
    "top-k and top-p": Sampler(0.9, 12, 0.9),
    "ends when likeliest": Sampler(1.0, 20, 1.0, end_when_likeliest=True),
    "ras": RepetitionAware(1.0, 10, 0.8, window=6, tau=0.2),
    "penalty": RepetitionPenalty(0.9, 12, 0.9, 1.3),
}
FRAMES = Slots((13, 12, 13))  # the 38 codes of `decoders`
SAMPLERS: dict[str, Sampler] = {
    **PLAIN,
    **{f"{name}, in frames": replace(one, slots=FRAMES) for name, one in PLAIN.items()},
}
RULES = {
    "exact": Tolerance(),
    "tolerance": Tolerance(0.4),
    "groups": random_cover(VOCAB, 5).rule(),
    "groups, equal": random_cover(VOCAB, 12, equal=True).rule(),
    "block": BlockRule(),
    "block of groups": BlockRule(random_cover(VOCAB, 12).rule()),
}


def models() -> tuple[MergedVocabLM, MergedVocabLM]:
    weights = state(3)
    return build(weights), build(weights, (0, 2, 5))


def layer(
    target: MergedVocabLM,
    blocks: int = 1,
    dtype: torch.dtype = torch.float32,
    ids: Tensor | None = None,
) -> RecurrentDrafter:
    tensors = layer_tensors(HIDDEN, blocks=blocks)
    return RecurrentDrafter(target, RecurrentLayer(tensors, target.head, dtype, ids))


DRAFTERS: dict[str, Callable[[MergedVocabLM], Drafter]] = {
    "a model": lambda _: LMDrafter(models()[1]),
    "a model to 2.5 nats": lambda _: LMDrafter(models()[1], 2.5),
    "a model to 0 nats": lambda _: LMDrafter(models()[1], 0.0),
    "matches of 1 to 3": lambda _: LookupDrafter(VOCAB, CPU, 3, 1),
    "matches of 2": lambda _: LookupDrafter(VOCAB, CPU, 2, 2),
    "matches of 1 to 30": lambda _: LookupDrafter(VOCAB, CPU, 30, 1),
    "a layer": layer,
    "a layer of 3 blocks": partial(layer, blocks=3),
    "a layer in bfloat16": partial(layer, blocks=2, dtype=torch.bfloat16),
    "a layer in 8 bits": partial(layer, blocks=2, dtype=torch.int8),
    "a layer of few ids": partial(layer, dtype=torch.bfloat16, ids=3 * torch.arange(13)),
}


def asked(count: int) -> list[Request]:
    """Ragged; each has a voice prompt of its own length, the first none."""
    prompts = (tuple(n * at % VOCAB for at in range(3 * n)) for n in range(count))
    return [
        replace(row, prompt_tokens=prompt)
        for row, prompt in zip(requests(count), prompts, strict=True)
    ]


def spoken(
    drafter: str,
    rule: str,
    sampler: str = "all",
    lookahead: int = 3,
    count: int = 5,
    observer: Observer | None = None,
) -> list[Outcome]:
    target = models()[0]
    given = (DRAFTERS[drafter](target), RULES[rule], SAMPLERS[sampler], STOPS, lookahead)
    return Speculation(target, *given).decode(asked(count), observer)


class Noting(Observer):
    """Keeps what a loop says of each round."""

    def __init__(self) -> None:
        self.told: list[tuple[Tensor, Tensor, Tensor, Round]] = []

    def verified(self, target_probs: Tensor, draft_probs: Tensor, made: Round) -> None:
        reached = made.reached(draft_probs.shape[1])
        self.told.append((target_probs[reached], draft_probs[reached], reached, made))


def in_python(patch: pytest.MonkeyPatch) -> None:
    """Rounds from here on, the parts of which may be native."""
    patch.setattr(speculation, "sampled_steps", lambda *_: None)


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("name", SAMPLERS)
def test_an_utterance_of_the_target_alone(name: str, count: int) -> None:
    """All tokens, lengths and ends of a ragged batch; none of the steps went through Python."""
    target, sampler, batch = models()[0], SAMPLERS[name], asked(count)
    (loop,) = deque(EAGER.states(loops.alone(target, STOPS, sampler), batch), maxlen=1)
    rows = loop.rows
    steps = []
    real = target.extend
    target.extend = lambda *given: steps.append(1) or real(*given)  # type: ignore[method-assign]
    walked = loops.autoregressive(target, STOPS, sampler, batch)
    assert not steps
    for row, outcome in enumerate(walked):
        length = int(rows.count[row])
        assert outcome.tokens == rows.tokens[row, :length].tolist()
        assert length == batch[row].max_tokens or outcome.tokens[-1] in STOPS


@pytest.mark.parametrize(
    ("drafter", "rule", "sampler", "lookahead", "count"),
    pairwise(DRAFTERS, RULES, SAMPLERS, [1, 3, 6], [1, 5]),
)
def test_rounds(
    drafter: str,
    rule: str,
    sampler: str,
    lookahead: int,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tokens, rounds, acceptances: all of an outcome. One call for the batch, one a draft in rounds
    of Python's, and none, by the rule's reference.
    """
    given = (drafter, rule, sampler, lookahead, count)
    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "_round", None)  # no round of Python's
        whole = spoken(*given)
    assert sum(outcome.counts.rounds for outcome in whole) > 0
    in_python(monkeypatch)
    assert spoken(*given) == whole
    monkeypatch.setattr(lm, "sampled_steps", lambda *_: None)
    monkeypatch.setattr(speculation, "verify", lambda rule, *given: rule.judge(*given))
    assert spoken(*given) == whole


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_each_drafts_and_some_of_it_passes(drafter: str) -> None:
    """Equal tokens of rounds without a draft would show nothing."""
    made = spoken(drafter, "tolerance", count=12)
    assert sum(one.counts.drafted for one in made) > 5
    assert sum(one.counts.accepted for one in made) > 0


@pytest.mark.parametrize(
    ("drafter", "sampler", "count", "rule"),
    pairwise(
        ["a model", "a model to 2.5 nats", "matches of 1 to 3"],
        ["all", "top-k and top-p", "ras"],
        [1, 5],
        RULES,
    ),
)
def test_who_watches_hears_of_native_rounds_what_python_says(
    drafter: str, sampler: str, count: int, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round's laws where they count, and what came of it."""
    given = (drafter, rule, sampler, 3, count)
    whole, native, reference = spoken(*given), Noting(), Noting()
    assert spoken(*given, native) == whole
    in_python(monkeypatch)
    assert spoken(*given, reference) == whole
    assert len(native.told) == len(reference.told)
    for (*laws, reached, made), (*others, there, ours) in zip(
        native.told, reference.told, strict=True
    ):
        depths = there.shape[1]
        assert torch.equal(reached[:, :depths], there)
        assert not reached[:, depths:].any()
        for law, other in zip(laws, others, strict=True):
            torch.testing.assert_close(law, other, atol=1e-6, rtol=0)
        for kind in ("active", "drafted", "accepted"):
            assert torch.equal(getattr(made, kind), getattr(ours, kind))
        for kind in ("fallback", "bare"):
            both = (getattr(one, kind)[made.active] for one in (made, ours))
            assert torch.equal(*both)


@torch.inference_mode()
def test_native_rounds_clock_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They add up to nearly all that the rounds take; those of Python have to be watched."""
    target, draft = models()
    made = Speculation(target, LMDrafter(draft), Tolerance(), SAMPLERS["all"], STOPS, 3)
    (loop,) = deque(EAGER.states(made.looping(), requests(1)), maxlen=1)
    loop.load(requests(1))
    begin = time.perf_counter()
    assert loop.run_native(100)
    whole = time.perf_counter() - begin
    (outcome,) = loop.outcomes()
    assert outcome.split is not None
    assert min(outcome.split) > 0
    assert 0.3 * whole < sum(outcome.split) <= whole
    in_python(monkeypatch)
    assert {one.split for one in made.decode(requests(2))} == {None}


@pytest.mark.parametrize("count", [1, 5])
def test_rounds_one_by_one(count: int) -> None:
    """As a stream has them: after each what the whole begins with, and no more than a round's."""
    target, draft = models()
    made = Speculation(target, LMDrafter(draft), Tolerance(0.2), SAMPLERS["ras"], STOPS, 3)
    whole = made.decode(requests(count))
    before = torch.zeros(count, dtype=torch.int64)
    for rows in (loop.rows for loop in EAGER.states(made.looping(), requests(count))):
        new = rows.count - before
        assert 0 <= int(new.min()) <= int(new.max()) <= 4
        before = rows.count.clone()
        for row, outcome in enumerate(whole):
            said = rows.tokens[row, : int(before[row])].tolist()
            assert said == outcome.tokens[: len(said)]
    assert before.tolist() == [len(outcome.tokens) for outcome in whole]


@pytest.mark.parametrize("rule", ["exact", "block"])
@pytest.mark.parametrize("who", [0, 1])
def test_rounds_without_a_law(who: int, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target's NaN ends a row, the draft's in its residual: as in Python."""
    pair = list(models())
    head = torch.full((32, 40), float("nan"))
    pair[who] = MergedVocabLM(pair[who].decoder, LAYOUT, pair[who].embedding, matrix(head))
    made = Speculation(pair[0], LMDrafter(pair[1]), RULES[rule], Sampler(), STOPS, 3)
    outcomes = made.decode(requests(2))
    in_python(monkeypatch)
    assert outcomes == made.decode(requests(2))
    assert all(outcome.failure is not None for outcome in outcomes)


def test_look_up_reads_a_row_of_a_batch_natively() -> None:
    """A stream refills rows one by one: a row read the prompts of the whole batch."""
    target, drafter = models()[0], LookupDrafter(VOCAB, CPU, 3, 1)
    made = Speculation(target, drafter, Tolerance(0.3), SAMPLERS["all"], STOPS, 3)
    rows = asked(5)
    served = {one.id: outcome for one, outcome in EAGER.stream(made.looping(), rows, 2)}
    assert served == {row.id: made.decode([row])[0] for row in rows}


def test_ids_are_looked_up_in_their_order() -> None:
    """Of a merged vocabulary whose codes lie anywhere among the rows; in bfloat16 too."""
    target = models()[0]
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.bfloat16):
        embedding = target.embedding.to(dtype)
        model = RowLM(target.decoder, LAYOUT, embedding, target.head, order)  # type: ignore[arg-type]
        alone = loops.alone(model, STOPS, Sampler())
        (loop,) = deque(EAGER.states(alone, requests(2)), maxlen=1)
        rows = loop.rows
        walked = loops.autoregressive(model, STOPS, Sampler(), requests(2))
        lengths = rows.count.tolist()
        expected = [
            tokens[:length].tolist() for tokens, length in zip(rows.tokens, lengths, strict=True)
        ]
        assert [outcome.tokens for outcome in walked] == expected


class Other(Sampler):
    """A sampler that compiled code knows nothing of."""


def test_who_walks() -> None:
    """A sampler of another kind, and torch's kernels, do not."""
    target, lengths = models()[0], torch.tensor([3])
    assert sampled_steps(target, target.cache(1, 8), lengths, Sampler()) is not None
    penalty = RepetitionPenalty(1.0, penalty=1.2)
    assert sampled_steps(target, target.cache(1, 8), lengths, penalty) is not None
    assert sampled_steps(target, target.cache(1, 8), lengths, Other()) is None
    with computing(Kernels.torch):
        other = models()[0]
        assert sampled_steps(other, other.cache(1, 8), lengths, Sampler()) is None
