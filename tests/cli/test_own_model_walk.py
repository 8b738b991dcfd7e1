"""docs/own-model.md, walked by its commands alone with a small random checkpoint like Orpheus:
from golden files and speech to drafters, sweeps, scores, a report and an exported draft.
"""

import importlib
import shlex
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import own_process
import pytest
import torch
from own_folders import TEXTS, frames, write_codes, write_configs, write_list
from test_paper_guide import ROOT, SCRIPTS, commands
from transformers import LlamaConfig, LlamaForCausalLM

from speculative_tts.commands import check, speak
from speculative_tts.records import read_jsonl
from speculative_tts.typed import read_json

GOLDEN = Path(__file__).parents[1] / "golden" / "rows"
TEXT = (ROOT / "docs/own-model.md").read_text().partition("\n## A ")[0]  # not of one target alone
BLOCKS = [line.strip() for line in TEXT.splitlines() if line.startswith("    sst-")]
TWICE = ("runs/all", "draft=itself", "draft.path=runs/recurrent")  # what is done once here
# What the document says to add to its commands, by program.
OWN = ["--config-dir", "my-configs", "target=mine"]
ADDED = {
    "sst-own-codes": [*OWN, "codec=mine", "codes=data/mine/codes"],
    "sst-train-heads": [*OWN, "codes=data/mine/codes"],
    "sst-train-draft": [*OWN, "codes=data/mine/codes"],
    "sst-decode": [*OWN, "codec=mine", "data=mine"],
    "sst-bench": [*OWN, "codec=mine", "data=mine"],
    "sst-export": OWN,
    "sst-eval": [],
    "sst-report": [],
}
TRAINED = ["steps=2", "batch_size=4", "dev_utterances=2", "warmup=1"]
SMALL = {  # of a model that learnt nothing, nobody wants much
    "sst-own-codes": ["limit=6"],
    "sst-train-heads": [*TRAINED, "sequences=8", "eval_every=2"],
    "sst-train-draft": TRAINED,
    "sst-decode": ["limit=2", "runtime.warmup=0", "instrument=1"],
    "sst-bench": ["tokens=8", "limit=1"],
    "sst-eval": ["metrics=[similarity]"],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's folder: a checkpoint of 12 layers, SNAC, texts to say, codes to learn from."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(GOLDEN / "orpheus" / "model", "models/mine")
    shutil.copytree(GOLDEN / "snac", "models/mine_codec")
    stored = read_json(Path("models/mine/config.json"))
    sizes = {"num_hidden_layers": 12, "hidden_size": 32, "intermediate_size": 48, "head_dim": 8}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**stored | sizes)).save_pretrained("models/mine")
    write_configs(
        tmp_path,
        target="defaults: [orpheus, _self_]\nname: mine\npath: models/mine\n"
        "rows: {count: 112, speakers: [tara, leo], max_length: 400, max_tokens: 30}\n",
        codec="name: snac\npath: models/mine_codec\n",
        data="name: mine\npath: data/mine/test.jsonl\n",
    )
    write_list(tmp_path / "data/mine/test.jsonl", TEXTS, speaker="leo")
    rng = np.random.default_rng(0)
    write_codes(tmp_path / "data/mine/codes", partial(frames, rng, 7, 16))
    return tmp_path


def run(line: str) -> None:
    """Run a command of the document as it says, and small."""
    program, *options = shlex.split(line)
    module, _, name = SCRIPTS[program].partition(":")
    main = getattr(importlib.import_module(module), name)
    given = [*options, *ADDED[program], *SMALL.get(program, [])]
    assert main(given) == 0, " ".join([program, *given])
    own_process.renew()  # a stranger types each command in a process of its own


def in_frames(codes: list[int]) -> bool:
    return all(code // 16 == position % 7 for position, code in enumerate(codes))


@pytest.mark.whole
def test_the_document_leads_from_a_check_to_a_report(place: Path) -> None:
    for name in ("orpheus", "snac"):
        assert check.main([f"target={name}", f"golden={GOLDEN / name}"]) == 0
    spoken = [*OWN, "codec=mine", "text=The ferry leaves.", "prompt=leo", "out=x.wav"]
    assert speak.main(spoken) == 0
    walked = [line for line in commands(BLOCKS) if not any(word in line for word in TWICE)]
    assert len(walked) > 12
    for line in walked:
        run(line)
    run(
        "sst-decode rule=group rule.groups.mean_size=3 drafter=lm draft.path=runs/draft lookahead=3"
    )
    records = [row for file in Path("runs").glob("*/records.jsonl") for row in read_jsonl(file)]
    assert len(records) > 20
    assert all(in_frames(record["codes"]) for record in records)
    assert {record["speaker"] for record in records} == {"leo"}
    assert Path("runs/report/index.html").is_file()
    assert read_json(Path("runs/export/config.json"))["num_hidden_layers"] == 4
