"""docs/own-model.md from a random transformers checkpoint to its page, and each step's time."""

import importlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import own_process
import pytest
import torch
from fake_models import write_codec, write_fake_models
from own_folders import write_configs
from own_hour import Size, make_folder, table, walk
from small_target import save_codes
from test_paper_guide import SCRIPTS
from transformers import LlamaConfig, LlamaForCausalLM

from speculative_tts.commands import speak, train_heads
from speculative_tts.native import library
from speculative_tts.schema.common import Device, DType
from speculative_tts.training import devices
from speculative_tts.training.devices import fast_dtype
from speculative_tts.typed import read_json

GOLDEN = Path(__file__).parents[1] / "golden" / "llasa" / "model_1b_style"
N_CODES = 256


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkpoint as transformers writes it, a codec, codes to learn from, a list, three YAMLs."""
    write_fake_models(tmp_path, utterances=2)
    shutil.rmtree(tmp_path / "codec")
    write_codec(tmp_path / "codec", np.random.default_rng(0), n_codes=N_CODES)
    shutil.copytree(GOLDEN, tmp_path / "mine")
    config = LlamaConfig.from_pretrained(GOLDEN)
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "mine")
    save_codes(tmp_path / "codes")
    write_configs(
        tmp_path,
        target=f"name: mine\npath: {tmp_path / 'mine'}\nrows:\n  max_length: 400\n",
        codec=f"name: tiny\npath: {tmp_path / 'codec'}\n",
        data=f"name: mine\npath: {tmp_path / 'list.jsonl'}\n",
    )
    return tmp_path


FEW = {  # of a model that learnt nothing, nobody wants much
    "sst-own-codes": ["limit=6"],
    "sst-train-heads": [
        "steps=6",
        "sequences=12",
        "batch_size=16",
        "eval_every=3",
        "dev_utterances=2",
        "warmup=1",
    ],
    "sst-decode": ["limit=2", "runtime.warmup=0"],
    "sst-eval": ["metrics=[]", "workers=1"],
}
TOY = Size(layers=2, hidden=32, inner=48, heads=4, codes=64, length=12, recordings=24)


def as_typed(line: Sequence[str]) -> int:
    """Run a command in this process, as if it were one of its own."""
    program, *options = line
    module, _, name = SCRIPTS[program].partition(":")
    own_process.renew()
    code: int = getattr(importlib.import_module(module), name)(options)
    return code


@pytest.mark.whole
def test_the_page_from_a_checkpoint_to_its_report(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a CPU without bfloat16, where the recipe took five times as long as in float32."""
    monkeypatch.setattr(library, "has_bfloat16", lambda: False)
    monkeypatch.setattr(devices, "has_bfloat16", lambda: False)
    make_folder(tmp_path, TOY)
    monkeypatch.chdir(tmp_path)
    seconds = dict(walk(FEW, as_typed))
    assert [step.split()[0] for step in seconds] == [
        *("sst-check", "sst-speak", "sst-own-codes", "sst-train-heads"),
        *(["sst-decode"] * 3),
        *("sst-eval", "sst-report"),
    ]
    page = Path("runs/report/index.html").read_text()
    assert all(f"speculative-exact-k{lookahead}-recurrent" in page for lookahead in range(1, 5))
    assert '"dtype": "float32"' in Path("runs/recurrent/training/settings.json").read_text()
    fitted = read_json(Path("runs/recurrent/training/fitted.json"))
    assert fitted == {"steps": 6, "sequences": 12}
    (line,) = (line for line in caplog.messages if " steps and " in line)
    assert "6 steps and 12 sequences fit into 30 minutes, " in line
    assert line.endswith(" a step on 1 x cpu, float32: this CPU has no native bfloat16")
    with capsys.disabled():
        print(f"\n{table(seconds)}")


@pytest.mark.parametrize("there", [True, False])
def test_the_recipe_computes_in_what_the_cpu_multiplies(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: there)
    assert fast_dtype(Device.cpu) is (DType.bfloat16 if there else DType.float32)
    assert train_heads.main.compose(["recipe=recurrent"]).dtype is None


def test_a_misspelt_key_of_a_file_of_ones_own_is_named_with_its_neighbour(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was said to be "for another command", and by its last part alone."""
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "mine.yaml").write_text('name: mine\npath: x\nrows:\n  cod: "a{}"\n')
    assert speak.main(["--config-dir", str(tmp_path), "target=mine", "text=hi"]) == 2
    said = "target=mine sets target.rows.cod, which is no key; did you mean target.rows.code?"
    assert said in capsys.readouterr().err
