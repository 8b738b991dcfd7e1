"""Block drafters of speculators (DFlash, DSpark): their own logits, exact rounds, refused files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from block_folders import BLOCK, KINDS, save_block, theirs
from safetensors.torch import load_file, save_file
from small_target import LAYOUT, save_target
from torch import Tensor

from speculative_tts.checks.chi_square import chi_square
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


def chi_squared(drafter: BlockDrafter, target: Path) -> tuple[float, float]:
    """Chi-square of the second and third tokens against the target's law, and its bound.

    A round's drafts begin with the second token. False alarms: 1e-9.
    """
    model, sampler = MergedVocabLM.load(target, **FLOAT), Sampler()
    prompt = model.prompt([LAYOUT.sos_id, LAYOUT.text_offset, LAYOUT.task_id])
    rows = [Request(f"u{n}", prompt, None, LONG, LONG, 0) for n in range(MANY)]
    speculation = Speculation(drafter.verifier, drafter, Tolerance(0.0), sampler, STOPS, 2)
    counts, accepted = np.zeros((model.vocab_size, model.vocab_size)), 0
    for begin in range(0, MANY, 500):
        for one in speculation.decode(rows[begin : begin + 500]):
            counts[one.tokens[1], one.tokens[2]] += 1
            accepted += one.counts.accepted
    assert accepted > 0.05 * MANY
    return chi_square(counts.ravel(), law(model, sampler, rows[0]).numpy().ravel())


@torch.inference_mode()
def law(model: MergedVocabLM, sampler: Sampler, row: Request) -> Tensor:
    """The target's law of second and third tokens: [ids, ids], by a pass over each two tokens."""
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
    return torch.einsum("a,ab,abc->bc", first.double(), second.double(), third.double())


@pytest.mark.parametrize("kind", ["dflash", "dspark, rnn", "dspark, few"])
def test_the_exact_rule_is_exact(kind: str, target: Path, tmp_path: Path, kernels: str) -> None:
    if kernels == "native":
        pytest.skip("drafts are torch's either way: once is enough")
    save_block(tmp_path, target, kind)
    statistic, bound = chi_squared(load(target, tmp_path), target)
    assert statistic < bound


def test_a_law_that_is_not_the_drafts_is_found(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: str
) -> None:
    """The negative control: what is drawn is not what is told."""
    if kernels == "native":
        pytest.skip("drafts are torch's either way: once is enough")
    save_block(tmp_path, target, "dspark")
    honest = BlockDrafting.propose

    def unsure(*given: Any) -> tuple[Tensor, Tensor]:
        drafted, laws = honest(*given)
        return drafted, torch.full_like(laws, 1 / laws.shape[-1])

    monkeypatch.setattr(BlockDrafting, "propose", unsure)
    statistic, bound = chi_squared(load(target, tmp_path), target)
    assert statistic > 1.5 * bound


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
