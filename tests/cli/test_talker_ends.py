"""A talker that ends its speech: its own codes learnt from, and decoding that is killed."""

import json
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from random import Random

import numpy as np
import own_process
import pyarrow.parquet as pq
import pytest
from csm_folders import save, talker
from killing import kill_driver, killed, start, through, untimed_runs, written
from own_folders import frames, write_codes, write_list
from run_records import records
from transformers import CsmForConditionalGeneration

from speculative_tts.commands import decode, own_codes, train_heads

BOOKS, CODES = 6, 4
TEXTS = ("Nine boats.", "Stay.", "The ferry leaves at seven.")
pytestmark = [pytest.mark.slow, pytest.mark.whole]


def likely_to_end(model: CsmForConditionalGeneration) -> None:
    """Add a constant state to both decoders that their heads read as code 0, the end's."""
    backbone, depth = model.backbone_model, model.depth_decoder.model
    for one, by in ((backbone, 1.0), (depth, 2.0)):
        one.layers[-1].mlp.down_proj.bias += by
    model.lm_head.weight[0] += 0.2
    model.depth_decoder.codebooks_head.weight[:, :, 0] += 0.3


@pytest.fixture
def talking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Settings of a small talker in a folder that also has codes and texts."""
    monkeypatch.chdir(tmp_path)
    save(Path("talker"), talker(BOOKS, CODES, seed=5, mlp_bias=True), likely_to_end)
    about = {"n_codes": BOOKS * CODES, "token_rate": 75, "sample_rate": 24_000}
    Path("silent").mkdir()
    Path("silent/codes.json").write_text(json.dumps(about))
    write_codes(
        Path("codes"),
        partial(frames, np.random.default_rng(0), BOOKS, CODES),
        TEXTS,
        train=24,
        speakers=24,
    )
    write_list(Path("list.jsonl"), islice(cycle(TEXTS), 40))
    return ["target=csm", "target.path=talker"]


def test_steps_are_learnt_from_what_the_talker_says(talking: list[str]) -> None:
    """Whole frames without the end's, of some texts and not of all: others ran on or said none."""
    own = ["codec=csm_codes", "codec.path=silent", "codes=codes", "out=runs/own"]
    assert own_codes.main([*talking, *own]) == 0
    tables = [pq.read_table(path).to_pylist() for path in Path("runs/own").rglob("*.parquet")]
    said = [np.array(row["codes"]).reshape(-1, BOOKS) for table in tables for row in table]
    assert 5 < len(said) < 24
    assert len({len(codes) for codes in said}) > 1
    for codes in said:
        assert (codes // CODES == np.arange(BOOKS)).all()
        assert (codes % CODES).any(1).all()
    learnt = ["kind=codebooks", "n=3", "losses.kl=1", "losses.ce=0", "steps=4", "warmup=1"]
    few = ["codes=codes", "codes_from=target", "own=runs/own", "sequences=5", "dev_utterances=2"]
    own_process.renew()
    assert train_heads.main([*talking, *few, *learnt, "batch_size=4", "out=runs/steps"]) == 0
    spoken = [*talking, *own[:2], "data.path=list.jsonl", "limit=4", "runtime.warmup=0"]
    drafted = ["draft=itself", "drafter=codebooks", "drafter.path=runs/steps", "lookahead=2"]
    assert decode.main([*spoken, "rule=exact", *drafted, "out=runs/made"]) == 0
    rows = records(Path("runs/made"))
    assert 0 < sum(row["accepted"] for row in rows) < sum(row["drafted"] for row in rows)


def test_decoding_that_is_killed_goes_on_with_the_same_codes(talking: list[str]) -> None:
    """Twice in a run, at moments drawn by what is written."""
    given = [*talking, "codec=csm_codes", "codec.path=silent", "data.path=list.jsonl", "timing=0"]
    given += ["runtime.warmup=0", "batch_size=2", "draft=itself", "rule=exact"]
    given += ["drafter=codebooks", "lookahead=3"]
    whole, cut = Path("whole"), Path("cut")
    through(start("decode", [*given, f"out={whole}"]))
    size, kills = written(whole), [kill_driver, kill_driver]
    assert killed("decode", [*given, f"out={cut}"], cut, size, kills, Random(3)) == 2
    assert untimed_runs(cut) == untimed_runs(whole)
    assert len(records(whole)) == 40
