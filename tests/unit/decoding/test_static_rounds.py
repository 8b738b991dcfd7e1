"""What a GPU replays as a graph: steps of fixed shape that look at no number, tried on a CPU.

They run on tensors without numbers (device meta), are traced without a break, and give the tokens
of the loops that look.
"""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import pytest
import torch
from decoders import STOPS, VOCAB, build, requests, state
from head_stubs import choosers
from static_loops import DRAFTERS, RULES, SAMPLERS, heads, moved, other_loops, rounds, speculation
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.graphs import Graphs, LoopSpec, Step
from speculative_tts.decoding.loops.multi_token import by_blocks, multi_token
from speculative_tts.decoding.loops.observer import Instruments
from speculative_tts.decoding.loops.one_by_one import alone as by_tokens
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models import host
from speculative_tts.models.decoder import attention

pytestmark = pytest.mark.usefixtures("torchs_kernels")

META = torch.device("meta")
shapes_of = partial(moved, device=META)


@pytest.mark.parametrize(
    ("rule_name", "sampler", "drafter"),
    [
        *((name, "all", who) for name in RULES for who in ("lm", "recurrent")),
        *(("exact", name, "lm") for name in SAMPLERS if name != "all"),
        *(("exact", "ras", name) for name in DRAFTERS if name != "lm"),
    ],
)
@torch.inference_mode()
def test_a_round_reads_no_number(rule_name: str, sampler: str, drafter: str) -> None:
    """Of every rule, sampler and drafter: tensors on this device have shapes alone."""
    made = shapes_of(speculation(rule_name, sampler, drafter))
    loop = rounds(made, shapes_of(requests(3)))
    loop.step()
    loop.step()


@torch.inference_mode()
def test_neither_do_the_other_loops() -> None:
    for loop in map(shapes_of, other_loops().values()):
        loop.step()
        loop.step()


def asks_whether_all_is_over(patch: pytest.MonkeyPatch) -> None:
    """As `emit` once did."""
    real = BatchState.grow

    def grow(rows: BatchState, count: Tensor, stopped: Tensor) -> None:
        real(rows, count, stopped)
        if rows.done.all():
            rows.over = True  # type: ignore[attr-defined]

    patch.setattr(BatchState, "grow", grow)


@pytest.mark.usefixtures("unchecked")
@torch.inference_mode()
def test_a_host_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control, of both ways to look for one."""
    made = speculation("exact", "all", "lm")
    loop = rounds(shapes_of(made), shapes_of(requests(3)))
    asks_whether_all_is_over(monkeypatch)
    with pytest.raises(RuntimeError, match="meta tensors"):
        loop.step()
    with host.fixed():
        step = traced(rounds(made, requests(3)).step)
        with pytest.raises(torch._dynamo.exc.Unsupported):
            step()


def traced(step: Callable[[], None]) -> Callable[[], None]:
    """As one graph without a break."""
    torch.compiler.reset()
    return torch.compile(step, fullgraph=True, backend="eager")


@pytest.fixture
def unchecked(pytestconfig: pytest.Config) -> None:
    """The checker of shapes cannot be traced; `make test` runs these once without it."""
    if pytestconfig.getoption("--jaxtyping-packages"):
        pytest.skip("traced without the checker of shapes alone")


TRACED = [
    *((name, "top-k and top-p", "lm") for name in RULES),
    *(("exact", name, "lm") for name in SAMPLERS if name != "top-k and top-p"),
    *(("exact", "all", name) for name in DRAFTERS if name != "lm"),
]


@pytest.mark.parametrize(("rule_name", "sampler", "drafter"), TRACED)
@pytest.mark.usefixtures("unchecked")
@torch.inference_mode()
def test_a_round_is_one_graph(rule_name: str, sampler: str, drafter: str) -> None:
    """Traced once, replayed to the end: the tokens and counts of the loop that looks."""
    looking = speculation(rule_name, sampler, drafter).decode(requests(3))
    with host.fixed():
        made = speculation(rule_name, sampler, drafter)
        assert made.decode(requests(3), graphs=Graphs(traced)) == looking


@pytest.mark.parametrize("name", ["all", "best path", "drawn path", "VALL-E"])
@pytest.mark.usefixtures("unchecked")
@torch.inference_mode()
def test_a_step_of_the_other_loops_is_one_graph(name: str) -> None:
    loop = other_loops()[name]
    loop.rows.count.fill_(10)
    with host.fixed():
        traced(loop.step)()


def batches() -> list[list[Request]]:
    """Two of a size, one of another, one that outgrows the first bucket."""
    return [
        requests(4),
        requests(4, seed=5, maximum=30),
        requests(1, seed=2),
        requests(4, seed=3, maximum=300),
    ]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_kept_loops_give_what_new_ones_give(drafter: str) -> None:
    """Ragged batches one after the other in the same tensors, of fixed shape."""
    alone = [speculation("tolerance", "ras", drafter).decode(batch) for batch in batches()]
    with host.fixed():
        made, graphs = speculation("tolerance", "ras", drafter), Graphs(lambda step: step)
        assert [made.decode(batch, graphs=graphs) for batch in batches()] == alone
        assert len(graphs.kept) == 3


@pytest.mark.parametrize("name", ["independent", "best path", "drawn path, boundary"])
def test_kept_blocks_and_tokens(name: str) -> None:
    target, sampler, made = build(state(3)), SAMPLERS["penalty"], heads()
    choose = choosers(VOCAB, STOPS, sampler)[name]

    def spoken(*graphs: Graphs) -> list[list[Outcome]]:
        return [
            outcome
            for batch in batches()
            for outcome in (
                multi_token(target, made, choose, STOPS, batch, *graphs),
                autoregressive(target, STOPS, sampler, batch, *graphs),
            )
        ]

    alone = spoken()
    with host.fixed():
        assert spoken(Graphs(lambda step: step)) == alone


def test_two_batches_at_a_time_have_loops_of_their_own() -> None:
    """As streams of two speakers have."""
    made, graphs = speculation("exact", "all", "lm"), Graphs(lambda step: step)
    alone = [made.decode(requests(2, seed=seed), graphs=graphs) for seed in (0, 1)]
    streams = [graphs.states(made.looping(), requests(2, seed=seed)) for seed in (0, 1)]
    for states in zip(*streams, strict=False):
        last = states
    for rest in streams:
        for _ in rest:
            pass
    for loop, outcomes in zip(last, alone, strict=True):
        found = [
            row[: len(o.tokens)].tolist() for row, o in zip(loop.rows.tokens, outcomes, strict=True)
        ]
        assert found == [o.tokens for o in outcomes]


def whole(*parts: Any) -> LoopSpec[Any]:
    return Speculation(*parts).looping()


@pytest.mark.parametrize("spec", [by_tokens, by_blocks, whole])
def test_a_loop_is_kept_for_all_that_it_is_made_of(spec: Callable[..., LoopSpec[Any]]) -> None:
    """Another model, drafter or rule, equal as it may be, has a loop of its own."""
    (model, other), plain = (build(state(seed)) for seed in (3, 4)), Sampler()
    choose, drafter = choosers(VOCAB, STOPS, plain)["independent"], LMDrafter(model)
    ends, cold, rule = (*STOPS, 0), Sampler(0.0), Tolerance()
    given, others = {
        by_tokens: ((model, STOPS, plain), (other, ends, cold)),
        by_blocks: (
            (model, heads(5), choose, STOPS),
            (other, heads(5), copy(choose), ends),
        ),
        whole: (
            (model, drafter, rule, plain, STOPS, 2),
            (other, LMDrafter(model), Tolerance(), cold, ends, 1),
        ),
    }[spec]
    key = spec(*given).key
    assert spec(*given).key == key
    for place, changed in enumerate(others):
        assert spec(*given[:place], changed, *given[place + 1 :]).key != key


def test_what_was_without_a_law_leaves_nothing_to_the_next_batch() -> None:
    """NaN in a kept cache would pass through its mask."""
    graphs = Graphs(lambda step: step)
    decode = partial(speculation("exact", "all", "lm").decode, graphs=graphs)
    (alone,) = decode(requests(1))
    broken = requests(1)
    broken[0].prompt.fill_(float("nan"))
    assert decode(broken)[0].failure is not None
    assert decode(requests(1)) == [alone]
    assert len(graphs.kept) == 1


def test_who_watches_has_a_loop_that_is_not_captured() -> None:
    """It looks at numbers, which a captured step has none of; the same tokens."""
    captured = []

    def capture(step: Step) -> Step:
        captured.append(step)
        return step

    made, graphs = speculation("exact", "all", "lm"), Graphs(capture)
    alone = made.decode(requests(2), graphs=graphs)
    assert len(captured) == 1
    watch = Instruments(made.rule, made.lookahead, torch.device("cpu"))
    assert made.decode(requests(2), watch, graphs) == alone
    assert len(captured) == 1
    assert len(watch.per_round) == max(one.counts.rounds for one in alone)


def test_a_bucket_that_the_model_does_not_have() -> None:
    """512 positions are had, the bucket would be 1,024: the size itself, then, and the same line
    for what is too long.
    """
    for graphs in (Graphs(), Graphs(lambda step: step)):
        target = build(state(3))
        autoregressive(target, STOPS, Sampler(), requests(1, maximum=480), graphs)
        with pytest.raises(ValueError, match=r"positions exceed the model's 512"):
            autoregressive(target, STOPS, Sampler(), requests(1, maximum=600), graphs)


@torch.inference_mode()
def test_fused_attention_is_given_four_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three, torch refuses its fused kernels."""
    shapes: list[tuple[int, ...]] = []
    real = torch.nn.functional.scaled_dot_product_attention

    def noted(*given: Tensor, **options: Tensor) -> Tensor:
        shapes.append(tuple(x.ndim for x in (*given, options["attn_mask"])))
        return real(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(attention.F, "scaled_dot_product_attention", noted)
    for name in ("all", "VALL-E"):
        shapes_of(other_loops()[name]).step()
    assert set(shapes) == {(4, 4, 4, 4)}


def test_kept_loops_are_let_go_where_memory_is_short() -> None:
    """Each kept its cache and its graph's memory for good: that of an 8B grew by 5 GiB in two."""
    graphs = Graphs(lambda step: step, lambda: 1.0)
    made = speculation("exact", "all", "lm")
    for rows in (1, 2, 3):
        made.decode(requests(rows), graphs=graphs)
    assert len(graphs.kept) == 3
    made.decode(requests(1), graphs=graphs)  # now the newest
    shares = iter([0.1, 0.1, 0.5])
    graphs.free_share = lambda: next(shares)
    alone = made.decode(requests(4))
    assert made.decode(requests(4), graphs=graphs) == alone
    assert [size.batch for _, size in graphs.kept] == [1, 4]
