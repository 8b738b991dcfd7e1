"""Qwen3 checkpoints of random weights: transformers' logits and greedy tokens (golden files)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.decoder import Decoder
from speculative_tts.models.decoder.loading import build_decoder, read_state, state_matrices
from speculative_tts.models.decoder.matrix import matrix
from speculative_tts.models.families.code_lm import CodeLM

pytestmark = pytest.mark.usefixtures("kernels")

GOLDEN = Path(__file__).parents[2] / "golden" / "qwen3"
STYLES = ("tied_sharded_bf16", "untied_biased")
CPU = torch.device("cpu")
GREEDY = Sampler(temperature=0.0)


def load(style: str, dtype: torch.dtype = torch.float32, **changes: Any) -> CodeLM:
    folder = GOLDEN / style
    config, state = DecoderConfig.from_folder(folder), read_state(folder)
    embedding, head = (one.to(dtype) for one in state_matrices(config, state, folder))
    decoder = build_decoder(config, state | changes, dtype=dtype, device=CPU)
    return CodeLM(decoder, embedding, matrix(head.T))


def expected(style: str) -> dict[str, Tensor]:
    arrays = np.load(GOLDEN / "expected.npz")
    mine = (name for name in arrays if name.startswith(f"{style}/"))
    return {name.partition("/")[2]: torch.from_numpy(arrays[name]) for name in mine}


@torch.inference_mode()
def logits(model: CodeLM, ids: Tensor) -> Tensor:
    start = torch.zeros(1, dtype=torch.int64)
    return model.extend(ids[None], model.cache(1, len(ids)), start)[0]


@pytest.mark.parametrize("style", STYLES)
def test_logits_are_transformers(style: str) -> None:
    golden = expected(style)
    found = logits(load(style), golden["ids"])
    assert golden["logits"].std() > 0.5
    torch.testing.assert_close(found, golden["logits"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["q_norm", "k_norm"])
def test_a_forgotten_norm_is_found(name: str) -> None:
    """A control: gains of one, as a loader that forgets them would have."""
    gain = {f"model.layers.1.self_attn.{name}.weight": torch.ones(16)}
    golden = expected(STYLES[0])
    found = logits(load(STYLES[0], **gain), golden["ids"])
    assert (found - golden["logits"]).abs().max() > 0.1


@pytest.mark.parametrize("style", STYLES)
def test_greedy_tokens_are_transformers_alone_and_drafted(style: str) -> None:
    model, golden = load(style), expected(style)
    rows, prompt = golden["greedy"].tolist(), int(golden["prompt"])
    number = len(rows) - prompt
    request = Request("golden", model.prompt(rows[:prompt]), None, 0, number, 0)
    (alone,) = autoregressive(model, (), GREEDY, [request])
    assert alone.tokens == rows[prompt:]
    whole = model.decoder
    lower = Decoder(replace(whole.config, layers=1), whole.layers[:1], whole.norm)
    draft = CodeLM(lower, model.embedding, model.head)
    for drafter in (draft, model):
        speculation = Speculation(model, LMDrafter(drafter), Tolerance(0.0), GREEDY, (), 3)
        (sped,) = speculation.decode([request])
        assert sped.tokens == alone.tokens
    assert sped.counts.accepted == sped.counts.drafted > 0, "a hole in the draft's keys and values"


@pytest.mark.parametrize("style", STYLES)
def test_bfloat16_moves_distributions_little(style: str) -> None:
    ids = expected(style)["ids"]
    exact, rounded = (logits(load(style, dtype), ids).softmax(-1)
                      for dtype in (torch.float32, torch.bfloat16))  # fmt: skip
    assert float((exact - rounded).abs().sum(-1).mean()) / 2 < 0.03
