"""docs/own-model.md from a random transformers checkpoint to its page, and each step's time."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_models import write_codec, write_fake_models
from small_target import save_codes
from transformers import LlamaConfig, LlamaForCausalLM

from speculative_tts.commands import decode, own_codes, report, speak, train_heads
from speculative_tts.commands import eval as evaluate
from speculative_tts.native import library
from speculative_tts.schema.common import Device, DType
from speculative_tts.training.devices import fast_dtype

GOLDEN = Path(__file__).parents[1] / "golden" / "llasa" / "model_1b_style"
N_CODES = 256
Step = Callable[[str], object]


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
    places = {
        "target": f"name: mine\npath: {tmp_path / 'mine'}\nrows:\n  max_length: 400\n",
        "codec": f"name: tiny\npath: {tmp_path / 'codec'}\n",
        "data": f"name: mine\npath: {tmp_path / 'list.jsonl'}\n",
    }
    for group, text in places.items():
        (tmp_path / "my-configs" / group).mkdir(parents=True)
        (tmp_path / "my-configs" / group / "mine.yaml").write_text(text)
    return tmp_path


@contextmanager
def clocked(seconds: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - begin


@pytest.mark.whole
def test_the_page_from_a_checkpoint_to_its_report(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU without bfloat16, where the recipe took five times as long as in float32."""
    monkeypatch.setattr(library, "has_bfloat16", lambda: False)
    monkeypatch.setattr("speculative_tts.training.devices.has_bfloat16", lambda: False)
    monkeypatch.chdir(root)
    target = ["--config-dir=my-configs", "target=mine"]
    decoding = [*target, "codec=mine", "data=mine", "limit=2", "sampling.max_tokens_per_word=8"]
    decoding += ["sampling.text_rows=false", "runtime.warmup=0"]
    seconds: dict[str, float] = {}
    with clocked(seconds, "sst-speak"):
        voice = ["prompt=s0", "data=mine", "codec=mine", "text=alpha bravo"]
        short = ["sampling.max_tokens_per_word=8", "out=hello.wav"]
        assert speak.main([*target, *voice, *short]) == 0
    with clocked(seconds, "sst-own-codes"):
        own = ["codec=mine", "codes=codes", "limit=6", "sampling.max_tokens_per_word=8"]
        assert own_codes.main([*target, *own, "sampling.text_rows=false", "out=runs/own"]) == 0
    with clocked(seconds, "sst-train-heads recipe=recurrent"):
        few = ["steps=6", "batch_size=16", "sequences=6", "eval_every=3", "dev_utterances=2"]
        learnt = ["codes=codes", "codes_from=target", "own=runs/own", "out=runs/recurrent"]
        assert train_heads.main([*target, "recipe=recurrent", *learnt, *few, "warmup=2"]) == 0
    with clocked(seconds, "sst-decode"):
        for drafter in ("lookup", "recurrent drafter.path=runs/recurrent lookahead=1,2"):
            own = ["rule=exact", *f"drafter={drafter}".split()]
            assert decode.main([*decoding, *own]) == 0
    with clocked(seconds, "sst-eval"):
        assert evaluate.main(["runs=runs", "metrics=[]", "workers=1"]) == 0
    with clocked(seconds, "sst-report"):
        assert report.main(["paper=runs", "runs=runs", "out=runs/report"]) == 0
    page = (root / "runs" / "report" / "index.html").read_text()
    assert page.count("speculative-exact-k1-recurrent") > 0
    assert '"dtype": "float32"' in (root / "runs/recurrent/training/settings.json").read_text()
    with capsys.disabled():
        print(f"\n{', '.join(f'{name} {spent:.1f} s' for name, spent in seconds.items())}")


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
