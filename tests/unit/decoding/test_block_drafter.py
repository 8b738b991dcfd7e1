"""Block drafters of speculators (DFlash, DSpark): their own logits, exact rounds, refused files."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from block_folders import BLOCK, FLOAT, KINDS, load_block, save_block, theirs
from safetensors.torch import load_file, save_file
from small_target import LAYOUT, save_target
from torch import Tensor

from speculative_tts.commands import decode as command
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.block import BlockDrafter
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.block import BlockRule
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.block_head import Chain
from speculative_tts.models.families.merged_vocab import MergedVocabLM

STOPS = LAYOUT.stop_ids


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    save_target(folder, "qwen3")
    return folder


@pytest.fixture(scope="module", params=KINDS)
def saved(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    target: Path,
    kernels: str,
) -> tuple[Path, Any]:
    """A drafter's folder and itself, of each kind; the target computes with each of the kernels."""
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
    drafter = load_block(target, folder)
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
    drafter, rows = load_block(target, saved[0]), requests(6, target)
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


@pytest.mark.usefixtures("kernels")
def test_a_streams_rows_are_the_batchs(target: Path, tmp_path: Path) -> None:
    """A row that ends is given to the next utterance: it fills its part of the cache anew."""
    from speculative_tts.decoding.loops.graphs import EAGER

    save_block(tmp_path, target, "dspark")
    drafter, rows = load_block(target, tmp_path), requests(7, target)
    speculation = Speculation(
        drafter.verifier, drafter, Tolerance(0.2), Sampler(), STOPS, drafter.reach
    )
    streamed = {
        request.id: outcome.tokens
        for request, outcome in EAGER.stream(speculation.looping(), rows, 3)
    }
    assert streamed == {r.id: o.tokens for r, o in zip(rows, speculation.decode(rows), strict=True)}


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
        load_block(target, tmp_path)
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
    wanted = {
        "unknown": "not known here: layers.0.self_attn.sinks",
        "lost": "drafter has no tensor layers.1.mlp.up_proj",
        "maps": "do not say the same 20 rows",
    }
    with pytest.raises(ValueError, match=wanted[fault]):
        load_block(target, tmp_path)


def test_a_command_says_what_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["drafter=block", f"drafter.path={tmp_path}", f"out={tmp_path}/out"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "config.json" in line
