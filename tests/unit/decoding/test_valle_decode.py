"""The shipped tiny VALL-E from a list to a wave: AR by the common loops, NAR, residual codec."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from speculative_tts.assets import resolve
from speculative_tts.codecs.tiny import TOKEN_FEATURES, TinyCodec
from speculative_tts.commands.decode import main
from speculative_tts.models.families.valle.lm import ValleLM
from speculative_tts.models.heads import load_heads

PARTS = ["target=tiny_valle", "codec=tiny_residual", "limit=1", "runtime.warmup=0"]


def decoded(out: Path, *options: str) -> tuple[dict[str, Any], Path]:
    """The only record of a run, and its folder."""
    assert main([*PARTS, *options, f"out={out}"]) == 0
    folder = next(path.parent for path in out.rglob("records.jsonl"))
    return json.loads((folder / "records.jsonl").read_text()), folder


def test_one_utterance_with_shipped_weights(tmp_path: Path) -> None:
    record, folder = decoded(tmp_path, "method=target")
    codes, words = record["codes"], len(record["text"].split())
    assert 4 * words <= len(codes) <= 28 * words
    assert all(0 <= code < 1024 for code in codes)
    assert record["stop"] == "stop_id"
    wave, rate = soundfile.read(folder / record["audio"])
    assert (rate, len(wave)) == (16_000, 640 * len(codes))
    assert 0 < record["nar_seconds"] < 60
    assert 0 < record["codec_seconds"] < 60
    assert record["flow_seconds"] is None
    assert 0 < record["prefill_seconds"] < record["lm_seconds"]


def test_a_first_block_of_several_tokens_is_no_prefill(tmp_path: Path) -> None:
    """Time per token behind the first would leave its seconds out and count its tokens."""
    record, _ = decoded(tmp_path, "method=mtp")
    assert (record["prefill_seconds"], record["lm_seconds"] > 0) == (None, True)
    assert 0 < record["baseline_prefill_seconds"] < record["baseline_seconds"]


@pytest.mark.parametrize("method", ["target", "mtp"])
def test_batches_give_what_each_utterance_alone_gives(method: str, tmp_path: Path) -> None:
    """Its cache had no rows to hand out: every batch of `make mtp` ended in a traceback."""
    found = []
    for timing in ("null", "0"):
        out = tmp_path / timing
        options = [*PARTS[:2], "limit=4", "runtime.warmup=0", "instrument=0", "baseline=false"]
        assert main([*options, f"method={method}", f"timing={timing}", f"out={out}"]) == 0
        (path,) = out.rglob("records.jsonl")
        found.append([json.loads(line)["codes"] for line in path.read_text().splitlines()])
    assert len(found[0]) == 4
    assert found[0] == found[1]


def test_the_codec_alone_has_no_layers_to_fill(tmp_path: Path) -> None:
    record, _ = decoded(tmp_path, "method=codec")
    assert all(isinstance(code, int) for code in record["codes"])
    assert record["nar_seconds"] is None


def test_a_codec_of_one_layer_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flat = TinyCodec(np.zeros((1024, TOKEN_FEATURES), np.float32), np.ones(27, np.float32))
    flat.save(tmp_path / "flat")
    codec = ["codec=tiny", f"codec.path={tmp_path / 'flat'}", f"out={tmp_path / 'runs'}"]
    assert main([*PARTS, "method=target", *codec]) == 2
    assert "has 1 layers of codes, the target makes 4" in capsys.readouterr().err


@pytest.mark.usefixtures("kernels")
def test_shipped_heads_belong_to_the_shipped_target() -> None:
    target = resolve("tiny:valle")
    model = ValleLM.load(target)
    cpu = torch.device("cpu")
    folder = resolve("tiny:valle_heads")
    heads = load_heads(folder, None, target=target, dtype=torch.float32, device=cpu)
    hidden = torch.randn(3, model.config.dim, generator=torch.Generator().manual_seed(0))
    assert heads.n == 8
    torch.testing.assert_close(heads(hidden)[:, 0], model.logits(hidden))
    assert model.layout.n_codes == 1024
