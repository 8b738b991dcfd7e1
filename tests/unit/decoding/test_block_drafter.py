"""Block drafters of speculators (DFlash, DSpark): their own logits, exact rounds, refused files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from block_folders import BLOCK, KINDS, save_block, theirs
from safetensors.torch import load_file, save_file
from scipy.stats import chi2, ncx2
from small_target import LAYOUT, save_target
from torch import Tensor

from speculative_tts.checks.chi_square import FALSE_ALARM, chi_square
from speculative_tts.commands import decode as command
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.block import BlockDrafter, BlockDrafting
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.block import BlockRule
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.block_head import Chain
from speculative_tts.models.families.merged_vocab import MergedVocabLM

pytestmark = pytest.mark.usefixtures("kernels")
CPU = torch.device("cpu")
STOPS = LAYOUT.stop_ids
FLOAT = {"dtype": torch.float32, "device": CPU}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    save_target(folder, "qwen3")
    return folder


def load(target: Path, folder: Path) -> BlockDrafter:
    model = MergedVocabLM.load(target, **FLOAT)
    order = model.layout.order(text_rows=False)
    return BlockDrafter.load(folder, model, order[: model.vocab_size], torch.float32)


@pytest.fixture(scope="module", params=KINDS)
def saved(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, target: Path
) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("block")
    return folder, save_block(folder, target, request.param)


@torch.inference_mode()
def ours(drafter: BlockDrafter, target: Path, ids: Tensor, place: int) -> Tensor:
    """Logits [reach, speech ids] of the block whose newest token is ids[place]."""
    cache = drafter.verifier.cache(1, len(ids) + BLOCK)
    model = MergedVocabLM.load(target, **FLOAT)
    drafter.verifier.prefill_hidden([model.prompt(ids[:place].tolist())], cache)
    start = torch.tensor([place])
    inputs = drafter.head.inputs(ids[place : place + 1])
    states = drafter.draft(inputs, cache.context, start)
    chain = Chain(drafter.head, states, first=BLOCK - drafter.reach)
    return torch.cat([chain(ids[place + n : place + n + 1]) for n in range(drafter.reach)])


@torch.inference_mode()
def test_logits_are_those_of_speculators(saved: tuple[Path, Any], target: Path) -> None:
    """Of the draft vocabulary's speech ids; others are -inf. Text rows cannot be drafted."""
    from transformers import AutoModelForCausalLM

    folder, draft = saved
    drafter = load(target, folder)
    model = AutoModelForCausalLM.from_pretrained(target).eval()
    ids = torch.randint(LAYOUT.speech_vocab_size, (14,), generator=torch.Generator().manual_seed(2))
    places = [3, 8]
    golden = theirs(draft, model, ids, places)[:, BLOCK - drafter.reach :]
    rows = torch.arange(golden.shape[-1])
    if draft.config.draft_vocab_size < draft.config.transformer_layer_config.vocab_size:
        rows = rows + draft.d2t
    speech = rows < LAYOUT.speech_vocab_size
    for place, wanted in zip(places, golden, strict=True):
        found = ours(drafter, target, ids, place)
        assert found.shape == (drafter.reach, LAYOUT.speech_vocab_size)
        torch.testing.assert_close(found[:, rows[speech]], wanted[:, speech], atol=1e-4, rtol=0)
        assert int(found.isinf().sum()) == found.numel() - wanted[:, speech].numel()
    assert golden.std() > 0.2


def rounds(
    drafter: BlockDrafter, rule: AcceptanceRule, rows: list[Request], sampler: Sampler
) -> list[Outcome]:
    given = (drafter.verifier, drafter, rule, sampler, STOPS, 3)
    return Speculation(*given).decode(rows)


def requests(number: int, target: Path, most: int = 12) -> list[Request]:
    model = MergedVocabLM.load(target, **FLOAT)
    prompts = [[LAYOUT.sos_id, LAYOUT.text_offset + row % 3, LAYOUT.task_id, *range(row % 4)]
               for row in range(number)]  # fmt: skip
    return [
        Request(f"u{row}", model.prompt(prompt), None, row % 3, most - row % 5, 0)
        for row, prompt in enumerate(prompts)
    ]


def test_greedy_tokens_are_the_targets_and_a_batch_its_rows(
    saved: tuple[Path, Any], target: Path
) -> None:
    drafter, rows = load(target, saved[0]), requests(6, target)
    model = MergedVocabLM.load(target, **FLOAT)
    greedy = Sampler(temperature=0.0)
    alone = autoregressive(model, STOPS, greedy, rows)
    found = rounds(drafter, Tolerance(0.0), rows, greedy)
    assert [one.tokens for one in found] == [one.tokens for one in alone]
    for rule in (Tolerance(0.4), BlockRule()):
        sampler = RepetitionAware(temperature=0.9, window=4, tau=0.5)
        together = rounds(drafter, rule, rows, sampler)
        singly = [rounds(drafter, rule, [row], sampler)[0] for row in rows]
        assert [one.tokens for one in together] == [one.tokens for one in singly]
        assert sum(one.counts.drafted for one in together) > 10


def test_a_streams_rows_are_the_batchs(target: Path, tmp_path: Path) -> None:
    """A row that ends is given to the next utterance: it fills its part of the cache anew."""
    from speculative_tts.decoding.loops.graphs import EAGER

    save_block(tmp_path, target, "dspark")
    drafter, rows = load(target, tmp_path), requests(7, target)
    speculation = Speculation(
        drafter.verifier, drafter, Tolerance(0.2), Sampler(), STOPS, drafter.reach
    )
    streamed = {
        request.id: outcome.tokens
        for request, outcome in EAGER.stream(speculation.looping(), rows, 3)
    }
    assert streamed == {r.id: o.tokens for r, o in zip(rows, speculation.decode(rows), strict=True)}


LONG, MANY = 3, 8_000  # tokens, utterances
MISSED = 1e-6  # chance that the control overlooks its fault


def same_requests(model: MergedVocabLM, number: int) -> list[Request]:
    """Return requests of one prompt, which differ in their random numbers alone."""
    prompt = model.prompt([LAYOUT.sos_id, LAYOUT.text_offset, LAYOUT.task_id])
    return [Request(f"u{n}", prompt, None, LONG, LONG, 0) for n in range(number)]


def spoken(drafter: BlockDrafter, rows: list[Request]) -> list[Outcome]:
    """Decode by the exact rule, two drafted tokens a round, 500 rows at a time."""
    given = (drafter.verifier, drafter, Tolerance(0.0), Sampler(), STOPS, 2)
    batches = (rows[begin : begin + 500] for begin in range(0, len(rows), 500))
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
    first, second, third = laws(model, Sampler(), rows[0])
    pairs = torch.einsum("a,ab,abc->bc", first, second, third)
    return chi_square(counts.ravel(), pairs.numpy().ravel())


@torch.inference_mode()
def laws(model: MergedVocabLM, sampler: Sampler, row: Request) -> tuple[Tensor, Tensor, Tensor]:
    """Return the target's laws of the first three tokens given those before, in float64.

    Shapes: [ids], [ids, ids] and [ids, ids, ids], by a pass over each two tokens.
    """
    ids = torch.arange(model.vocab_size)

    def after(tokens: Tensor) -> Tensor:
        """Laws after each row of tokens [rows, tokens]."""
        rows, number = tokens.shape
        cache = model.cache(rows, len(row.prompt) + number + 1)
        logits = model.prefill([row.prompt] * rows, cache)[:, None]
        if number:
            start = torch.full((rows,), len(row.prompt))
            logits = model.extend(tokens, cache, start, keep=1)
        history = torch.cat([tokens, tokens.new_zeros(rows, 1)], 1)
        places = torch.full((rows, 1), number)
        stop = StopRule.build(STOPS, model.vocab_size, [LONG] * rows, CPU)
        return sampler(logits, history, places, stop)[:, 0]

    first = after(ids[:1, None][:, :0])[0]
    second = after(ids[:, None])
    pairs = torch.cartesian_prod(ids, ids)
    third = after(pairs).view(len(ids), len(ids), -1)
    return first.double(), second.double(), third.double()


@pytest.mark.parametrize("kind", ["dflash", "dspark, rnn", "dspark, few"])
def test_the_exact_rule_is_exact(kind: str, target: Path, tmp_path: Path, kernels: str) -> None:
    if kernels == "native":
        pytest.skip("drafts are torch's either way: once is enough")
    save_block(tmp_path, target, kind)
    statistic, bound = chi_squared(load(target, tmp_path), target)
    assert statistic < bound


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
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: str
) -> None:
    """The negative control: drafts whose distributions are told a little flatter than they are.

    Of 4,000 second tokens, a false alarm in 1e9 and a miss in 1e6, the least fault that the test
    can find is computed from the laws alone, before any draw, and then planted: output then follows
    the law of that fault, worked out in `verified`.
    """
    if kernels == "native":
        pytest.skip("drafts are torch's either way: once is enough")
    number, honest = 4_000, BlockDrafting.propose
    save_block(tmp_path, target, "dspark")
    drafter, model = load(target, tmp_path), MergedVocabLM.load(target, **FLOAT)
    rows = same_requests(model, number)
    first, second, _ = laws(model, Sampler(), rows[0])
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


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "an eagle": ({"speculators_model_type": "eagle3"}, "'eagle3' is not loaded as a drafter"),
    "no layers read": ({"aux_hidden_state_layer_ids": None}, "does not say aux_hidden_state"),
    "more layers": ({"aux_hidden_state_layer_ids": [0, 4]}, r"layers \[0, 4\]"),
    "another width": ({"target_hidden_size": 32}, "other than qwen3's of the target's own width"),
    "windows": (
        {"layer_types": ["sliding_attention"] * 2, "sliding_window": 4, "use_sliding_window": True},
        "sliding windows",
    ),
    "another vocabulary": ({"vocab_size": 99}, "draft vocabulary of|vocab_size 99"),
    "another layer": ({"model_type": "llama"}, "other than qwen3's"),
    "layers of no number": (
        {"num_hidden_layers": "two"},
        r"config\.json is odd .*num_hidden_layers",
    ),
    "kinds of fewer layers": (
        {"layer_types": ["full_attention"]},
        r"config\.json is odd .*layer_t",
    ),
    "another head": ({"markov_head_type": "deep"}, "markov_head_type 'deep'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_not_supported_is_refused(name: str, target: Path, tmp_path: Path) -> None:
    save_block(tmp_path, target, "dspark")
    change, message = CHANGES[name]
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    inner = config["transformer_layer_config"]
    (inner if inner.keys() & change.keys() else config).update(change)
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message) as caught:
        load(target, tmp_path)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value)


@pytest.mark.parametrize("fault", ["unknown", "lost", "maps"])
def test_weights_that_do_not_belong_are_refused(fault: str, target: Path, tmp_path: Path) -> None:
    save_block(tmp_path, target, "dspark, few")
    path = tmp_path / "model.safetensors"
    state = load_file(path)
    if fault == "unknown":
        state["layers.0.self_attn.sinks"] = torch.zeros(3)
    elif fault == "lost":
        del state["layers.1.mlp.up_proj.weight"]
    else:
        state["d2t"] = state["d2t"].flip(0)
    save_file(state, path)
    wanted = {"unknown": "not known here: layers.0.self_attn.sinks", "lost": "up_proj.weight of",
              "maps": "do not say the same 20 rows"}  # fmt: skip
    with pytest.raises(ValueError, match=wanted[fault]):
        load(target, tmp_path)


def test_a_command_says_what_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["drafter=block", f"drafter.path={tmp_path}", f"out={tmp_path}/out"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "config.json" in line
