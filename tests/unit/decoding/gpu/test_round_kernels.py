"""Rounds by kernels beside torch's, interpreted where there is no GPU."""

from functools import partial

import pytest
import torch
from decoders import STOPS, build, requests, state
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from planted import finds
from static_loops import RULES, SAMPLERS, moved, speculation
from torch import Tensor
from triton_tests import DEVICE, needs_triton

from speculative_tts.decoding.batch import BatchState, Size
from speculative_tts.decoding.gpu import draws
from speculative_tts.decoding.gpu import rounds as kernels
from speculative_tts.decoding.gpu.launch import everywhere
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import settled
from speculative_tts.decoding.outcome import Tally
from speculative_tts.decoding.sampling import randomness
from speculative_tts.decoding.sampling.randomness import ACCEPT, AUXILIARY
from speculative_tts.models import host

pytestmark = [needs_triton, pytest.mark.usefixtures("torchs_kernels")]
VOCAB, NUMBER, BATCH, CAPACITY = 40, 3, 6, 12
SHIPPED = ("exact", "tolerance", "groups", "block", "block of groups")
FEW = examples(4)


class Scene:
    """A verification in the middle of a batch: ragged, of drafts that are often wrong.

    Row 0 drafts nothing, row 1 a stop id, row 2 from the target's own distribution; row 2 is near
    its limit, row 3 is done.
    """

    def __init__(self, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)

        def some(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=random)

        def distributions(*shape: int) -> Tensor:
            made = some(*shape, VOCAB) ** 6
            return made / made.sum(-1, keepdim=True)

        size = Size(BATCH, CAPACITY, CAPACITY)
        rows = BatchState(size, STOPS, VOCAB, torch.device("cpu"), NUMBER)
        rows.count.copy_(torch.tensor([1, 3, 5, 2, 2, 4]))
        rows.limit.copy_(torch.tensor([12, 12, 8, 12, 12, 12]))
        rows.done[3] = True
        rows.uniforms.copy_(some(*rows.uniforms.shape))
        rows.again.copy_(some(*rows.again.shape))
        rows.tokens.copy_((some(BATCH, CAPACITY) * 38).long())
        self.target = distributions(BATCH, NUMBER + 1)
        self.draft = (distributions(BATCH, NUMBER) + self.target[:, :NUMBER]) / 2
        self.draft[2] = self.target[2, :NUMBER]
        self.drafted = torch.tensor([0, 2, 2, 3, 3, 3])
        tokens = torch.multinomial(self.draft.view(-1, VOCAB), 1, generator=random)
        rows.tokens.scatter_(1, rows.positions(NUMBER), tokens.view(BATCH, NUMBER))
        rows.tokens[1, 4] = STOPS[0]
        self.target[1, 1, STOPS[0]] = self.draft[1, 1, STOPS[0]] = 0.5
        self.rows, self.tally = rows, Tally(BATCH, NUMBER, rows.count.device)

    def on_device(self) -> "Scene":
        """Itself, where kernels run."""
        for name, value in vars(self).items():
            setattr(self, name, moved(value, DEVICE))
        return self

    @property
    def given(self) -> tuple[Tensor, ...]:
        return self.target, self.draft, self.rows.window(-1, NUMBER + 1), self.drafted

    @property
    def changed(self) -> list[Tensor]:
        rows, inside = self.rows, torch.arange(CAPACITY) < self.rows.count[:, None].cpu()
        tokens = torch.where(inside, rows.tokens.cpu(), 0)
        return [tokens, *(x.cpu() for x in (rows.count, rows.done, self.tally.sums))]


def by_torch(rule: str, seed: int) -> list[Tensor]:
    scene = Scene(seed)
    scene.tally.add(settled(RULES[rule], scene.rows, *scene.given))
    return scene.changed


def by_kernels(rule: str, seed: int) -> list[Tensor]:
    scene = Scene(seed).on_device()
    kernels.settle(moved(RULES[rule], DEVICE), scene.rows, scene.tally.sums, *scene.given)
    return scene.changed


def alike(found: list[Tensor], wanted: list[Tensor]) -> bool:
    return all(map(torch.equal, found, wanted))


@pytest.mark.parametrize("rule", [*SHIPPED, "typical"])
@FEW
@given(seed=st.integers(0, 999))
def test_a_verification_comes_to_what_torchs_does(rule: str, seed: int) -> None:
    """Tokens, counts, which rows are done, and the tally of what was accepted."""
    assert alike(by_kernels(rule, seed), by_torch(rule, seed))


def verdicts(rule: str, seed: int) -> list[Tensor]:
    """Accepted tokens and the mass of the next one: by torch, then by kernels."""
    scene, twin = Scene(seed), Scene(seed).on_device()
    made = RULES[rule]
    wanted = made.judge(
        scene.target, scene.draft, scene.given[2][:, 1:], scene.drafted,
        scene.rows.random(NUMBER, ACCEPT, AUXILIARY),
    )  # fmt: skip
    by = kernels.kernels_of(moved(made, DEVICE))
    assert by is not None
    assert by.sums is not None
    sums = by.sums
    laws = twin.target, twin.draft
    coarse = sums.coarse(laws[0]), sums.coarse(laws[1])
    decided = kernels.accept(by, twin.rows, coarse, twin.given[2], twin.drafted)
    mass = sums.residual(laws, coarse, decided)
    mass = mass / mass.sum(-1, keepdim=True)
    return [wanted.accepted, wanted.next_probs, decided.accepted.cpu(), mass.cpu()]


def rounds_differ(rule: str) -> bool:
    return not all(alike(by_kernels(rule, seed), by_torch(rule, seed)) for seed in range(12))


def near(rule: str, seed: int) -> bool:
    """Equal acceptance, and masses of groups to 1e-5."""
    wanted, law, accepted, mass = verdicts(rule, seed)
    return torch.equal(accepted, wanted) and bool((mass - law).abs().max() < 1e-5)


@pytest.mark.parametrize("rule", ["groups", "block of groups"])
@FEW
@given(seed=st.integers(0, 999))
def test_masses_of_groups_are_torchs(rule: str, seed: int) -> None:
    assert near(rule, seed)


def sums_differ() -> bool:
    return not all(near("groups", seed) for seed in range(3))


ROUND_FAULTS = [  # what stands there, what is planted, a rule that shows it
    ("tl.where(left <= 0, 0.0, left)", "q", "exact"),
    ("(i < length) & ((uniform", "((uniform", "tolerance"),
    ("- tl.load(tolerance)", "", "tolerance"),
    ("now, after))", "after, after))", "exact"),
    ("tl.where(bare, 0, 1)", "1", "exact"),
    ("+ j + 1, weight", "+ j + 1, kept", "block"),
    ("weight *= tl.sum(", "weight = tl.sum(", "block"),
    ("depth < tl.where(", "depth <= tl.where(", "exact"),
    ("(taken >= length) & (bare == 0)", "(taken >= length)", "exact"),
    ("tl.load(at + AUXILIARY, mask", "tl.load(at + ACCEPT, mask", "groups"),
]
GROUP_FAULTS = [
    ("mass / tl.load(members.totals", "mass * tl.load(members.totals"),
    ("inside = k < groups", "inside = k < groups - 1"),
    ("tl.where(most <= less, 0.0, most - less)", "most"),
    ("coarse_draft + lower * groups", "coarse_draft + 0 * lower * groups"),
]


def test_purposes_of_uniforms_are_those_of_the_loops() -> None:
    """Kernels cannot import them."""
    from speculative_tts.decoding.gpu.kernels import rounds as source

    for name in ("DRAFT", "ACCEPT", "AUXILIARY", "NEXT", "DRAWS"):
        assert getattr(source, name).value == getattr(randomness, name)


def left(rows: BatchState, over: list[bool]) -> bool:
    """True if the host's memory says whether all rows are over."""
    rows.done.copy_(torch.tensor(over).repeat(len(rows.done) // len(over)))
    answer = torch.tensor(not all(over))
    answer = answer.pin_memory() if rows.done.is_cuda else answer
    kernels.leave(rows, answer)
    rows.done.any().item()  # waits
    return bool(answer) == all(over)


def small_kernels() -> bool:
    """Inputs of a pass, renewed uniforms, picked states and an answer are torch's."""
    scene, twin, same = Scene(1), Scene(1).on_device(), []
    for behind, ahead in ((1, 0), (2, 0), (1, NUMBER)):
        wanted = scene.rows.inputs(scene.rows.lengths, behind, ahead, 2)
        found = kernels.inputs(twin.rows, twin.rows.lengths, behind, ahead, 2)
        pairs = zip(found, vars(wanted).values(), strict=True)
        same += [torch.equal(one.cpu(), other) for one, other in pairs]
    scene.rows.renew()
    kernels.renew(twin.rows)
    same.append(torch.equal(twin.rows.uniforms.cpu(), scene.rows.uniforms))
    same += [left(twin.rows, over) for over in ([True, False, True], [True] * 3)]
    x, index = torch.randn(3, 4, 70, device=DEVICE), torch.tensor([3, 0, 2], device=DEVICE)
    return all([*same, torch.equal(draws.pick(x, index), x[torch.arange(3), index])])


def test_inputs_renewed_uniforms_and_picked_states_are_torchs() -> None:
    assert small_kernels()


SMALL_FAULTS = [
    ("now + offset + i, 0)", "now + offset + i + 1, 0)"),
    ("tl.minimum(now, -offset) - 1", "tl.minimum(now, -offset)"),
    ("tl.load(rows.done + b) != 0, 0, left)", "tl.load(rows.done + b) != 0, left, left)"),
    ("i % DRAWS < NEXT", "i % DRAWS <= NEXT"),
    ("(i < AGAIN * DRAWS)", "(i < AGAIN * DRAWS - 2)"),
    ("tl.load(source + at, mask=inside)", "tl.load(source + at, mask=at < width - 1)"),
    ("tl.load(index + b)) * width", "tl.load(index + b) - 1) * width"),
    ("tl.store(answer, tl.min(over, 0))", "tl.store(answer, tl.max(over, 0))"),
]
test_a_planted_fault_is_found = finds(
    [
        *(("rounds", *fault, partial(rounds_differ, rule)) for *fault, rule in ROUND_FAULTS),
        *(("groups", *fault, sums_differ) for fault in GROUP_FAULTS),
        *(("rounds", *fault, lambda: not small_kernels()) for fault in SMALL_FAULTS),
    ]
)


@pytest.mark.parametrize(
    ("rule", "sampler", "drafter"),
    [("exact", "ras", "lm"), ("groups", "all", "adaptive"), ("block", "greedy", "recurrent")],
)
def test_a_batch_has_torchs_tokens(rule: str, sampler: str, drafter: str) -> None:
    """From the first token to the last, drafts by kernels too."""
    asked = requests(2, maximum=9)
    wanted = speculation(rule, sampler, drafter).decode(asked)
    made, asked = moved(speculation(rule, sampler, drafter), DEVICE), moved(asked, DEVICE)
    with everywhere(), host.fixed():
        assert made.decode(asked) == wanted


def test_a_target_alone_has_torchs_tokens() -> None:
    asked, target = requests(2, maximum=9), build(state(3))
    wanted = autoregressive(target, STOPS, SAMPLERS["top-k and top-p"], asked)
    target, asked = moved(target, DEVICE), moved(asked, DEVICE)
    with everywhere():
        assert autoregressive(target, STOPS, SAMPLERS["top-k and top-p"], asked) == wanted
