"""sst-decode method=mtp as a user runs it, on random little targets of both kinds."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from fake_models import N_CODES, FakeModels, write_codec, write_fake_models
from run_records import records
from valle_folders import write_valle

from speculative_tts.codecs.tiny import ResidualTinyCodec
from speculative_tts.commands.decode import main as decode
from speculative_tts.commands.precompute import main as precompute
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.heads import HeadTensors, save_heads

HEADS, LAYERS = 4, 3
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> FakeModels:
    """Two targets with four heads each, their codecs, and codes to count transitions on."""
    root = tmp_path_factory.mktemp("models")
    models = write_fake_models(root, utterances=2)
    rng = np.random.default_rng(1)
    target = MergedVocabLM.load(root / "target", dtype=torch.float32, device=CPU)
    valle = write_valle(root / "valle", n_codes=N_CODES, quantizers=LAYERS)
    heads = {"target": target.head.dense().T, "valle": valle.ar.ar_predict_layer.weight}
    for name, own in heads.items():
        noise = torch.randn(HEADS, *own.shape, generator=torch.Generator().manual_seed(0))
        noise[0] = 0
        save_heads(root / f"{name}_heads", HeadTensors(own + 0.1 * noise), target=root / name)
    books = rng.standard_normal((LAYERS, N_CODES, 108)).astype(np.float32) * 0.1
    ResidualTinyCodec(books, np.ones(27, np.float32)).save(root / "residual")
    (root / "codes").mkdir()
    rows = [rng.integers(0, N_CODES, 50).tolist() for _ in range(20)]
    table = pa.table({"split": ["train"] * len(rows), "codes": rows})
    pq.write_table(table, root / "codes" / "train-0.parquet")
    return models


def arguments(models: FakeModels, kind: str, out: Path) -> list[str]:
    root = models.root
    own = {
        "tiny": [f"target.path={root / 'target'}", f"codec.path={root / 'codec'}"],
        "valle": [
            f"target.path={root / 'valle'}",
            "codec=tiny_residual",
            f"codec.path={root / 'residual'}",
        ],
    }
    common = [
        "method=mtp",
        "heads.n=4",
        "limit=1",
        "runtime.warmup=0",
        "viterbi.transitions.path=null",
        f"viterbi.transitions.codes={root / 'codes'}",
        f"viterbi.transitions.cache={root / 'caches'}",
        "viterbi.transitions.workers=1",
        f"data.path={root / 'list.jsonl'}",
        f"out={out}",
    ]
    return [*own[kind], *common]


@pytest.mark.parametrize(
    ("kind", "mode"), [("tiny", "none"), ("tiny", "sample"), ("valle", "best"), ("valle", "none")]
)
def test_both_targets_with_and_without_a_path_search(
    models: FakeModels, tmp_path: Path, kind: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    extra = ["viterbi.boundary=true"] if mode == "best" else ["viterbi.candidates=perhead"]
    assert decode([*arguments(models, kind, tmp_path), f"viterbi.mode={mode}", *extra]) == 0
    (folder,) = tmp_path.glob("multi_token-*")
    (record,) = records(tmp_path)
    assert record["tokens"] == record["unverified"] >= 8
    assert record["passes"] == -(-record["tokens"] // HEADS)
    assert record["dead_blocks"] == 0
    assert record["baseline_tokens"] > 0
    assert (record["nar_seconds"] is not None) == (kind == "valle")
    assert (folder / record["audio"]).stat().st_size > 1000
    facts = json.loads((folder / "provenance.json").read_text())["multi_token"]
    assert facts["n"] == HEADS
    assert ("transitions" in facts) == (mode != "none")
    ignored = "neither top_p nor repetition rules" in caplog.text
    assert ignored == (mode != "none")  # the checkpoints' own sampler has top_p 0.9


def test_counted_transitions_belong_to_their_codec(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counted and exported by sst-precompute, refused by a run of another codec."""
    write_codec(tmp_path / "codec", np.random.default_rng(9))
    counted = [f"transitions.codes={models.root / 'codes'}", f"transitions.cache={tmp_path}/caches"]
    shipped = [f"codec.path={tmp_path / 'codec'}", f"export={tmp_path / 'shipped'}"]
    assert precompute(["cache=transitions", *counted, *shipped, "transitions.workers=1"]) == 0
    assert json.loads(capsys.readouterr().out)["bigrams"] == 20 * 49
    given = [*arguments(models, "tiny", tmp_path / "runs"), "viterbi.mode=best"]
    assert decode([*given, f"viterbi.transitions.path={tmp_path / 'shipped'}"]) == 2
    assert "were counted on another codec's codes" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
