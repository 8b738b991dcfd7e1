"""Blocks of tokens in one native call are those of the loop in Python, which is the reference."""

from collections.abc import Callable

import pytest
import torch
from computing import computing
from decoders import CPU, HIDDEN, STOPS, VOCAB, build, requests, state
from group_laws import random_cover
from pairwise import pairwise

from speculative_tts.assets import resolve
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.blocks.choosers import Chooser, IndependentHeads, ViterbiHeads
from speculative_tts.decoding.blocks.transitions import TransitionTable
from speculative_tts.decoding.blocks.viterbi import PathSearch
from speculative_tts.decoding.drafters.heads import HeadsDrafter
from speculative_tts.decoding.loops import one_by_one as loops
from speculative_tts.decoding.loops.graphs import EAGER
from speculative_tts.decoding.loops.multi_token import Blocks, by_blocks, multi_token
from speculative_tts.decoding.loops.speculation import Rounds, Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.block import BlockRule
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.families.valle.lm import ValleLM
from speculative_tts.models.heads import Heads, HeadTensors
from speculative_tts.models.speech_lm import HiddenModel
from speculative_tts.schema.decode import Kernels

pytestmark = pytest.mark.native
N = 4


def transitions(*, sparse: bool, share: float = 0.5) -> PathSearch:
    """A search of 3 candidates over random transitions, of which a share was seen; the others are
    impossible to a third of the codes, or to all where few were seen.
    """
    generator = torch.Generator().manual_seed(2)
    seen = torch.rand(VOCAB - 2, VOCAB - 2, generator=generator) < share
    logs = 2 * torch.randn(int(seen.sum()), generator=generator)
    barred = torch.arange(VOCAB - 2) % (3 if share > 0.2 else 1) == 0
    column = torch.where(barred, float("-inf"), -5.0)
    offsets = torch.cat([torch.zeros(1).long(), seen.sum(1).cumsum(0)])
    table = TransitionTable(
        offsets, seen.nonzero()[:, 1], logs, torch.full_like(column, -1), column
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("speculative_tts.decoding.blocks.transitions.TABLE", 0 if sparse else VOCAB)
        return PathSearch(table.on(CPU, ids=VOCAB, weight=1.0), 3)


def by_path(
    sample: bool,
    union: bool,
    boundary: bool,
    *,
    sparse: bool = False,
    ends: bool = False,
    temperature: float = 0.8,
    share: float = 0.5,
) -> Callable[[], Chooser]:
    def make() -> Chooser:
        made = transitions(sparse=sparse, share=share)
        search = PathSearch(made.transitions, 3, union, boundary)
        stop = StopRule.build(STOPS, VOCAB, [0], CPU)
        options = {"sample": sample, "end_when_likeliest": ends}
        return ViterbiHeads(search, stop, temperature=temperature, **options)

    return make


CHOOSERS: dict[str, Callable[[], Chooser]] = {
    "greedy": lambda: IndependentHeads(Sampler(0.0)),
    "sampler": lambda: IndependentHeads(Sampler(0.9, 12, 0.9)),
    "ras": lambda: IndependentHeads(RepetitionAware(1.0, 10, 0.8, window=6, tau=0.2)),
    "best": by_path(False, True, False),
    "best, boundary": by_path(False, True, True),
    "best, own candidates": by_path(False, False, True),
    "best, many codes": by_path(False, True, True, sparse=True),
    "best, few ways": by_path(False, False, False, share=0.1, temperature=1.0),
    "drawn": by_path(True, True, False),
    "drawn, boundary": by_path(True, True, True, temperature=1.0),
    "drawn, own candidates": by_path(True, False, True),
    "drawn, many codes": by_path(True, False, True, sparse=True),
    "drawn, ends when likeliest": by_path(True, True, False, ends=True),
    "drawn, few ways": by_path(True, True, False, share=0.1),
}


def heads_of(n: int = N, *, residual: bool = False) -> Heads:
    generator = torch.Generator().manual_seed(1)
    weight = state(3)["head"].T + 0.1 * torch.randn(n, VOCAB, HIDDEN, generator=generator)
    bias = 0.1 * torch.randn(n, VOCAB, generator=generator)
    blocks = 0.2 * torch.randn(n, HIDDEN, HIDDEN, generator=generator)
    more = (blocks, bias[:, :HIDDEN].contiguous()) if residual else ()
    return Heads(HeadTensors(weight, bias, *more))


def spoken(
    name: str, count: int, n: int = N, model: HiddenModel | None = None, heads: Heads | None = None
) -> list[Outcome]:
    """At the reference's speed where `Blocks` are told to be."""
    model, heads = model or build(state(3)), heads or heads_of(n)
    return multi_token(model, heads, CHOOSERS[name](), STOPS, requests(count))


def told(patch: pytest.MonkeyPatch, *, native: bool) -> None:
    """All by the one, nothing by the other."""

    def never(*_: object) -> None:
        raise AssertionError("not asked for")

    if native:
        patch.setattr(Blocks, "_block", never)
    else:
        patch.setattr(Blocks, "_natively", lambda _: None)


@pytest.mark.parametrize(("name", "count", "n"), pairwise(CHOOSERS, [1, 5], [1, 2, 4, 7]))
def test_blocks(name: str, count: int, n: int) -> None:
    """Tokens, passes, dead lattices: all of an outcome; ragged rows, minima and limits."""
    with pytest.MonkeyPatch.context() as patch:
        told(patch, native=True)
        ours = spoken(name, count, n)
    with pytest.MonkeyPatch.context() as patch:
        told(patch, native=False)
        assert spoken(name, count, n) == ours
    assert all(outcome.counts.passes >= 1 for outcome in ours)


def test_they_are_worth_comparing() -> None:
    """The control: no two ways to choose say the same; some rows end, some lattices are dead."""
    said = {name: spoken(name, 5) for name in CHOOSERS}
    alike = {"best, many codes": "best, boundary", "drawn, many codes": "drawn, own candidates"}
    for name, outcomes in said.items():
        assert (name in alike) == any(
            [out.tokens for out in outcomes] == [out.tokens for out in said[other]]
            for other in said
            if other != name and alike.get(other) != name
        )
    whole = [outcome for outcomes in said.values() for outcome in outcomes]
    assert 10 < sum(outcome.stopped for outcome in whole) < len(whole) - 10
    assert sum(outcome.counts.dead_blocks for outcome in whole) > 10


@pytest.mark.parametrize("name", ["sampler", "best", "drawn"])
def test_block_by_block(name: str) -> None:
    """As a stream has them: each is a part of the whole, n tokens or fewer."""
    whole, before = spoken(name, 3), [0, 0, 0]
    looping = by_blocks(build(state(3)), heads_of(), CHOOSERS[name](), STOPS)
    for made in EAGER.states(looping, requests(3)):
        now = made.rows.count.tolist()
        assert all(0 <= b - a <= N for a, b in zip(before, now, strict=True))
        before = now
    assert made.outcomes() == whole


def verified(name: str, count: int, lookahead: int, rule: AcceptanceRule) -> list[Outcome]:
    """Heads as the drafter, the sampler that of the chooser or a plain one."""
    chooser = CHOOSERS[name]()
    sampler = Sampler(0.9, 20)
    if isinstance(chooser, IndependentHeads):
        assert chooser.native is not None
        sampler = chooser.native[0]
    heads = heads_of(7, residual=True)
    given = (build(state(3)), HeadsDrafter(heads, chooser), rule, sampler, STOPS, lookahead)
    return Speculation(*given).decode(requests(count))


RULES = [Tolerance(), Tolerance(0.3), random_cover(VOCAB, 12).rule(), BlockRule()]


@pytest.mark.parametrize(
    ("name", "size", "rule"), pairwise(CHOOSERS, [(1, 3), (5, 1), (5, 6)], RULES)
)
def test_rounds_of_heads_that_are_verified(
    name: str, size: tuple[int, int], rule: AcceptanceRule
) -> None:
    """All of an outcome; drafts of each kind, rejected and accepted."""
    count, lookahead = size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rounds, "_round", lambda _: pytest.fail("not native"))
        ours = verified(name, count, lookahead, rule)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rounds, "_natively", lambda _: None)
        assert verified(name, count, lookahead, rule) == ours
    assert count == 1 or sum(out.counts.residuals for out in ours) > 0


@pytest.mark.parametrize("residual", [False, True])
def test_all_heads_in_one_call(residual: bool) -> None:
    """As torch has them, to 1e-6; of each state by itself the same bits."""
    heads = heads_of(residual=residual)
    hidden = torch.randn(3, HIDDEN, generator=torch.Generator().manual_seed(0))
    found = heads(hidden)
    assert torch.equal(torch.cat([heads(row[None]) for row in hidden]), found)
    with computing(Kernels.torch):
        expected = heads_of(residual=residual)(hidden)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    if residual:
        assert not found.allclose(heads_of()(hidden), atol=0.1)


def test_heads_without_a_law_are_told() -> None:
    """Of all heads, or of one: what is before may be said, nothing behind."""
    for broken in (slice(None), 1):
        weight = torch.stack([state(3)["head"].T] * N)
        weight[broken, 5] = float("nan")
        for name in CHOOSERS:
            for out in spoken(name, 2, heads=Heads(HeadTensors(weight))):
                assert out.failure is not None
                assert len(out.tokens) <= 1


@pytest.fixture(scope="module")
def valle() -> ValleLM:
    return ValleLM.load(resolve("tiny:valle"))


def valle_requests(valle: ValleLM) -> list[Request]:
    """Prompts of other lengths in text and in codes."""
    rows = [valle.merged(range(1, 4 + k), range(10, 15 + 3 * k)) for k in range(3)]
    return [Request(f"u{k}", valle.prompt(row), None, 20, 30 + k, 0) for k, row in enumerate(rows)]


def test_a_trunk_with_positions_of_its_own(valle: ValleLM) -> None:
    """VALL-E's codes are counted from the end of the text: alone, and by blocks."""
    rows = valle_requests(valle)
    heads = Heads(HeadTensors(torch.stack([valle.head.dense().T] * 3)))
    chooser, greedy = IndependentHeads(Sampler(0.9, 20)), Sampler(0.9, 20)
    with pytest.MonkeyPatch.context() as patch:
        told(patch, native=True)
        ours = multi_token(valle, heads, chooser, valle.stop_ids, rows)
        patch.setattr(loops.Autoregression, "step", lambda _: pytest.fail("not native"))
        alone = loops.autoregressive(valle, valle.stop_ids, greedy, rows)
    assert [len(set(out.tokens)) > 5 for out in (*ours, *alone)] == [True] * 6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ValleLM, "native_steps", lambda *_: None)
        assert multi_token(valle, heads, chooser, valle.stop_ids, rows) == ours
        assert loops.autoregressive(valle, valle.stop_ids, greedy, rows) == alone
    for row, out in zip(rows, alone, strict=True):
        assert loops.autoregressive(valle, valle.stop_ids, greedy, [row]) == [out]


def test_what_is_not_native_is_python_s() -> None:
    """Transitions in float64, heads of torch's kernels: the same tokens, step by step."""
    chooser = CHOOSERS["best"]()
    assert isinstance(chooser, ViterbiHeads)
    assert chooser.native is not None
    wide = transitions(sparse=False).transitions
    wide.after = wide.after.double()  # type: ignore[attr-defined]
    stop = StopRule.build(STOPS, VOCAB, [0], CPU)
    assert ViterbiHeads(PathSearch(wide, 3), stop, temperature=1.0, sample=False).native is None
    with computing(Kernels.torch):
        assert heads_of().native is None
