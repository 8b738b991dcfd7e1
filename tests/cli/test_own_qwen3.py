"""docs/own-model.md for a Qwen3 of random weights: groups, inherited draft, drafters, a report."""

import json
from pathlib import Path

import own_process
import pytest
import torch
from block_folders import save_block
from test_own_model import root  # noqa: F401 - a fixture
from transformers import AutoConfig, AutoModelForCausalLM, Qwen3Config

from speculative_tts.commands import decode, export, report, train_draft, train_heads
from speculative_tts.commands import eval as evaluate

TARGET = ["--config-dir=my-configs", "target=mine"]
SPOKEN = ["codec=mine", "sampling.max_tokens_per_word=8", "sampling.text_rows=false"]
RULES = (
    *("typical", "top", "divergence", "dynamic"),
    *("neighbours rule.source=embedding", "group rule.groups.mean_size=3"),
)
DRAFTERS = (
    "rule=exact drafter=lm draft.path=runs/draft lookahead=1,2",
    "rule=group rule.groups.mean_size=3 drafter=lm draft.path=runs/draft lookahead=2",
    "rule=exact drafter=recurrent drafter.path=runs/recurrent lookahead=2",
    "rule=exact drafter=heads heads.path=runs/heads heads.n=3 viterbi.mode=none lookahead=2",
    "rule=exact drafter=block drafter.path=block lookahead=2,3",
    "rule=exact rule.block=true drafter=block drafter.path=block lookahead=2",
    *(f"rule={rule} drafter=block drafter.path=block lookahead=3" for rule in RULES),
    *(f"rule={rule} drafter=block drafter.path=dflash lookahead=3" for rule in RULES[-3:]),
)


@pytest.mark.whole
def test_a_qwen3_goes_from_its_embeddings_to_a_report(
    root: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also by a block drafter, made for it by speculators, and back to transformers."""
    monkeypatch.chdir(root)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "head_dim": 16}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True}
    vocabulary = AutoConfig.from_pretrained("mine").vocab_size
    torch.manual_seed(0)
    config = Qwen3Config(vocab_size=vocabulary, max_position_embeddings=512, **sizes, **heads)
    AutoModelForCausalLM.from_config(config).save_pretrained("mine")
    for folder, kind in (("block", "dspark"), ("dflash", "dflash")):
        save_block(root / folder, root / "mine", kind)
    few = ["codes=codes", "steps=4", "dev_utterances=2"]
    learnt = [*TARGET, *few, "warmup=1", "batch_size=4", "gradient_checkpointing=true"]
    assert train_draft.main([*learnt, "layers=[0,3]", "out=runs/draft"]) == 0
    for kind in ("kind=recurrent n=3 out=runs/recurrent", "kind=linear n=3 out=runs/heads"):
        own_process.renew()
        assert train_heads.main([*learnt, "sequences=6", *kind.split()]) == 0
    decoding = [*TARGET, *SPOKEN, "data=mine", "limit=2", "runtime.warmup=0", "instrument=1"]
    for drafter in DRAFTERS:
        assert decode.main([*decoding, *drafter.split()]) == 0, drafter
    assert evaluate.main(["runs=runs", "metrics=[]", "workers=1"]) == 0
    assert report.main(["paper=runs", "runs=runs", "out=runs/report"]) == 0
    page = Path("runs/report/index.html").read_text()
    assert all(name in page for name in ("k2-block", "k3-block", "k2-recurrent", "exact-k2"))
    assert export.main([*TARGET, "draft.path=runs/draft", "out=export"]) == 0
    drafted = json.loads(Path("export/config.json").read_text())
    assert (drafted["model_type"], drafted["architectures"]) == ("qwen3", ["Qwen3ForCausalLM"])
    assert AutoModelForCausalLM.from_pretrained("export").config.num_hidden_layers == 2
