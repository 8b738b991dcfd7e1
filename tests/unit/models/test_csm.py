"""CSM beside transformers on configurations that the golden files do not have; mistakes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from csm_folders import GOLDEN, save, talker
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import CsmForConditionalGeneration

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.graphs import EAGER
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.families.csm.lm import PROJECTION, CsmLM
from speculative_tts.models.families.registry import code_embedding, load_layout, load_speech_lm
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig

pytestmark = pytest.mark.usefixtures("kernels")

CPU = torch.device("cpu")
TEXTS = ("The ferry leaves at seven.", "Nine boats.", "Would you read it again, softer?", "Tide.")
GREEDY = {"do_sample": False, "depth_decoder_do_sample": False}


def at(folder: Path) -> CheckpointConfig:
    return CheckpointConfig(name="csm", path=str(folder))


def load(folder: Path) -> CsmLM:
    model = load_speech_lm(at(folder), dtype=torch.float32, device=CPU)
    assert isinstance(model, CsmLM)
    return model


def requests(model: CsmLM, frames: int = 6, *, count: int = len(TEXTS)) -> list[Request]:
    """Prompts of different lengths."""
    rows = [model.prompt(model.prompt_ids(Prompt(text))) for text in TEXTS[:count]]
    most = frames * model.config.codebooks
    return [Request(str(n), row, None, 0, most, 0) for n, row in enumerate(rows)]


def greedily(model: CsmLM, given: list[Request]) -> list[Outcome]:
    return autoregressive(model, model.layout.stop_ids, Sampler(0.0), given)


def theirs(model: CsmForConditionalGeneration, rows: list[int], frames: int) -> Tensor:
    """Frames of transformers' generate."""
    made: Any = model.generate(
        torch.tensor([rows]),
        max_new_tokens=frames,
        attention_mask=torch.ones(1, len(rows)),
        **GREEDY,
    )
    found: Tensor = made[0]
    return found


@pytest.mark.parametrize(
    "config",
    [
        {"tie_codebooks_embeddings": False, "attention_bias": True, "mlp_bias": True},
        {"head_dim": 10},
    ],
    ids=["untied, biased", "wide heads"],
)
@torch.no_grad()
def test_frames_are_transformers(config: dict[str, object], tmp_path: Path) -> None:
    official = talker(4, 11, **config)
    model = load(save(tmp_path, official))
    for outcome, text in zip(greedily(model, requests(model)), TEXTS, strict=True):
        frames = theirs(official, model.prompt_ids(Prompt(text)), 6)
        ids = (frames + 11 * torch.arange(4)).flatten().tolist()
        assert outcome.tokens == ids
        assert not outcome.stopped


@torch.no_grad()
def test_a_frame_of_ends_but_for_its_last_code_ends_the_speech(tmp_path: Path) -> None:
    """As in transformers' generate, whose stop looks at all codes but the last."""

    def silent(model: CsmForConditionalGeneration) -> None:
        model.lm_head.weight.zero_()  # the first of equal logits is code 0, the end
        model.depth_decoder.codebooks_head.weight[:-1] = 0

    official = talker(4, 11)
    model = load(save(tmp_path, official, silent))
    rows = model.prompt_ids(Prompt(TEXTS[0]))
    (frame,) = theirs(official, rows, 6)
    assert frame[:-1].tolist() == [0, 0, 0]
    assert frame[-1] != 0
    (outcome,) = greedily(model, requests(model, count=1))
    assert outcome.stopped
    assert outcome.tokens == [0, 11, 22, 44]


def test_drafts_that_cross_frames_leave_no_trace(tmp_path: Path) -> None:
    """Ragged rows that are taken in turn, drafts by another talker: rollbacks in every place."""
    target = load(save(tmp_path / "target", talker(4, 11)))
    draft = load(save(tmp_path / "draft", talker(4, 11, seed=2)))
    given, alone = requests(target), {}
    for request in given:
        (alone[request.id],) = greedily(target, [request])
    for lookahead in (1, 2, 3):
        made = Speculation(
            target,
            LMDrafter(draft),
            Tolerance(0.0),
            Sampler(0.0),
            target.layout.stop_ids,
            lookahead,
        )
        found = {request.id: outcome for request, outcome in EAGER.stream(made.looping(), given, 2)}
        assert {key: one.tokens for key, one in found.items()} == {
            key: one.tokens for key, one in alone.items()
        }
        assert any(0 < one.counts.accepted < one.counts.drafted for one in found.values())


def test_codes_are_embedded_once_where_both_decoders_share_them(tmp_path: Path) -> None:
    folder = save(tmp_path, talker(4, 11))
    model = load(folder)
    torch.testing.assert_close(code_embedding(at(folder)), model.weights.codes)
    torch.testing.assert_close(model.weights.codes, model.weights.within)


def test_limits_are_whole_frames() -> None:
    layout = load_layout(at(GOLDEN / "model"))
    assert layout.limits("two words", 30, 0, 1000) == (0, 9 * 6)  # the checkpoint's 9 frames
    assert layout.limits("two words", 30, 0, 10) == (0, 3 * 6)
    assert layout.limits("two words", 252, 0, 1000) == (0, 3 * 6)
    with pytest.raises(ValueError, match="the prompt has 255 positions, the model 256; shorten"):
        layout.limits("two words", 255, 0, 1000)
    with pytest.raises(ValueError, match=r"min_tokens_per_word 1 is above 0, .* leave it out"):
        layout.limits("two words", 30, 1, 1000)


def test_texts_and_voices_that_no_prompt_can_have_are_named() -> None:
    layout = load_layout(at(GOLDEN / "model"))
    with pytest.raises(ValueError, match="the text is empty; give some words"):
        layout.text_ids(" ")
    with pytest.raises(ValueError, match=r"the text holds the control token <\|AUDIO\|>; take it"):
        layout.text_ids("Stay. <|AUDIO|>")
    with pytest.raises(ValueError, match="has 5 codes, which is no whole number of frames of 6"):
        layout.prompt_ids(Prompt("Stay.", "Now.", torch.arange(5)))
    spoken = [layout.prompt_ids(Prompt("Stay.", speaker=name)) for name in ("", "slt", "0", "1")]
    assert spoken[0] == spoken[1] == spoken[2] != spoken[3]


def _config(folder: Path, change: Callable[[dict[str, Any]], object], name: str) -> None:
    path = folder / name
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def _weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "codebooks": (
        lambda f: _config(f, lambda c: c.update(num_codebooks=5), "config.json"),
        "depth_decoder_config has num_codebooks 6, the backbone 5; copy config.json again",
    ),
    "an end beyond": (
        lambda f: _config(f, lambda c: c.update(codebook_eos_token_id=19), "config.json"),
        "codebook_eos_token_id 19 is no code below vocab_size 19",
    ),
    "two samplers": (
        lambda f: _config(
            f, lambda c: c.update(depth_decoder_temperature=0.5), "generation_config.json"
        ),
        "one sampler draws all here: make the depth_decoder_ keys equal",
    ),
    "no template": (
        lambda f: (f / "chat_template.jinja").unlink(),
        "has no chat template; copy tokenizer.json",
    ),
    "a text's token as audio": (
        lambda f: _config(f, lambda c: c.update(audio_token_id=7), "config.json"),
        "audio_token_id 7 and audio_eos_token_id 303 of config.json are no tokens",
    ),
    "no projection": (
        lambda f: _weights(f, lambda t: t.pop(PROJECTION)),
        "has no tensor depth_decoder.model.inputs_embeds_projector.weight",
    ),
    "a narrow head": (
        lambda f: _weights(f, lambda t: t.update({"lm_head.weight": torch.zeros(18, 40)})),
        r"lm_head.weight is \(18, 40\), config.json says \(19, 40\)",
    ),
    "more": (
        lambda f: _weights(f, lambda t: t.update({"speaker.weight": torch.zeros(2)})),
        "holds tensors that CSM does not have: speaker.weight",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_does_not_fit_is_named(name: str, tmp_path: Path) -> None:
    folder, (damage, message) = tmp_path / "model", FAULTS[name]
    shutil.copytree(GOLDEN / "model", folder)
    damage(folder)
    with pytest.raises(ValueError, match=message) as error:
        load(folder)
    assert "\n" not in str(error.value)


def test_a_gpu_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is decoded on a CPU alone: .* give runtime.device=cpu"):
        load_speech_lm(at(GOLDEN / "model"), dtype=torch.float32, device=torch.device("cuda"))
