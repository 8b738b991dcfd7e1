"""docs/own-model.md for a small random Spark-TTS: its voice is global codes, its codes no audio."""

import json
import shutil
from pathlib import Path

import numpy as np
import own_process
import pytest
import torch
from own_folders import TEXTS, write_codes, write_configs, write_list
from transformers import AutoConfig, AutoModelForCausalLM

from speculative_tts.commands import (
    check,
    decode,
    export,
    own_codes,
    report,
    train_draft,
    train_heads,
)
from speculative_tts.commands import eval as evaluate
from speculative_tts.records import read_jsonl

GOLDEN = Path(__file__).parents[1] / "golden" / "rows" / "spark"
CODES, VOICE = 96, list(range(32))
TARGET = ["--config-dir=my-configs", "target=mine", "sampling.text_rows=false"]
TRAINED = ["--config-dir=my-configs", "target=mine", "codes=codes", "steps=2", "warmup=1"]
TRAINED += ["batch_size=4", "dev_utterances=2", "codes_from=target", "own=runs/own"]
TRAININGS = (
    (train_draft, "layers=[0,3] out=runs/draft"),
    (train_heads, "kind=recurrent n=3 sequences=6 out=runs/recurrent"),
    (train_heads, "kind=linear n=3 sequences=6 out=runs/heads"),
)
HEADS = "draft=itself heads.path=runs/heads heads.n=3 viterbi.mode=none"
DECODED = (
    "method=target",
    "rule=exact draft=itself drafter=lookup",
    "rule=exact draft.path=runs/draft drafter=lm lookahead=1,2",
    "rule=group rule.groups.mean_size=3 draft.path=runs/draft drafter=lm lookahead=2",
    "rule=exact draft=itself drafter=recurrent drafter.path=runs/recurrent lookahead=2",
    f"rule=exact drafter=heads {HEADS} lookahead=2",
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's folder: four random layers, codes and texts, each in a voice of its own."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(GOLDEN / "model", "mine")
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(
        "mine", num_hidden_layers=4, layer_types=["full_attention"] * 4
    )
    AutoModelForCausalLM.from_config(config).save_pretrained("mine")
    write_configs(
        tmp_path,
        target="defaults: [spark, _self_]\nname: mine\npath: mine\n"
        f"rows: {{count: {CODES}, max_length: 300, max_tokens: 25}}\n",
        codec="name: codes\npath: silent\n",
        data="name: mine\npath: list.jsonl\n",
    )
    Path("silent").mkdir()
    about = {"n_codes": CODES, "token_rate": 50.0, "sample_rate": 16_000}
    Path("silent/codes.json").write_text(json.dumps(about))
    write_list(tmp_path / "list.jsonl", TEXTS, voice_codes=VOICE)
    rng = np.random.default_rng(0)
    write_codes(Path("codes"), lambda: rng.integers(0, CODES, 20).tolist(), voice_codes=VOICE)
    return tmp_path


@pytest.mark.whole
def test_a_spark_goes_from_its_check_to_a_report(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By every drafter that applies; sst-bench and a path through heads want transitions."""
    assert check.main(["target=spark", f"golden={GOLDEN}"]) == 0
    check.main(["folder=mine"])  # not whole: it has fewer codes than the published one
    assert "its codes are written as those of target=spark" in capsys.readouterr().out
    own = [*TARGET, "codec=mine", "codes=codes", "limit=6", "out=runs/own"]
    assert own_codes.main(own) == 0
    for trainer, asked in TRAININGS:
        own_process.renew()  # a stranger types each command in a process of its own
        assert trainer.main([*TRAINED, *asked.split()]) == 0, asked
    spoken = [*TARGET, "codec=mine", "data=mine", "limit=2", "runtime.warmup=0", "instrument=1"]
    for asked in DECODED:
        assert decode.main([*spoken, *asked.split()]) == 0, asked
    runs = {
        file.parent.name: list(read_jsonl(file)) for file in Path("runs").glob("*/records.jsonl")
    }
    assert len(runs) == len(DECODED) + 1  # a sweep has two
    for made in (one for rows in runs.values() for one in rows):
        assert made["codes"]
        assert all(0 <= code < CODES for code in made["codes"])
        assert made["accepted"] <= made["drafted"]
    assert evaluate.main(["runs=runs", "metrics=[]", "workers=1"]) == 0
    assert report.main(["paper=runs", "runs=runs", "out=runs/report"]) == 0
    page = Path("runs/report/index.html").read_text()
    assert all(name in page for name in runs)
    assert export.main([*TARGET[:2], "draft.path=runs/draft", "out=export"]) == 0
    assert AutoConfig.from_pretrained("export").num_hidden_layers == 2
