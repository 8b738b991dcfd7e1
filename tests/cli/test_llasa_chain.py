"""The whole chain on a LLaSA-shaped checkpoint: draft, groups, decoding, scores, report.

The golden checkpoint (256 codes, real prompt and tokenizer form, nothing learned) with a stand-in
codec of as many codes.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_models import write_codec, write_fake_models
from run_records import records
from safetensors.torch import load_file
from small_target import save_codes
from transformers import Xcodec2Config, Xcodec2Model

from speculative_tts.codecs.audio import read_wave
from speculative_tts.codecs.registry import load_codec
from speculative_tts.commands import decode, precompute, report, train_draft, train_heads
from speculative_tts.commands import eval as evaluate
from tests.unit.codecs.test_transformers_codecs import SIZES

GOLDEN = Path(__file__).parents[1] / "golden" / "llasa"
N_CODES = 256


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("llasa")
    write_fake_models(root, utterances=2)
    shutil.rmtree(root / "codec")
    write_codec(root / "codec", np.random.default_rng(0), n_codes=N_CODES)
    for name in ("8b", "1b"):
        shutil.copytree(GOLDEN / f"model_{name}_style", root / name)
    save_codes(root / "codes")
    return root


def overrides(root: Path) -> list[str]:
    return [
        "target.name=llasa",
        f"target.path={root / '8b'}",
        f"codec.path={root / 'codec'}",
    ]


def decoding(root: Path, draft: Path, out: str) -> list[str]:
    return [
        *overrides(root),
        f"draft.path={draft}",
        f"data.path={root / 'list.jsonl'}",
        f"out={root / out}",
        "sampling.max_tokens_per_word=8",
        "runtime.warmup=0",
        "instrument=1",
    ]


@pytest.mark.whole
def test_the_chain_from_draft_to_report(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draft = root / "draft-of-8b"
    training = ["layers=[0,1,3]", "steps=2", "batch_size=2", "dev_utterances=2", "warmup=1"]
    paths = [*overrides(root)[:2], f"codes={root / 'codes'}", f"out={draft}"]
    assert train_draft.main([*training, *paths]) == 0
    names = [name.split(".") for name in load_file(draft / "model.safetensors")]
    assert {parts[2] for parts in names if parts[1] == "layers"} == {"0", "1", "2"}
    assert (draft / "tokenizer.json").is_file()

    groups = [f"groups.cache={root / 'caches'}", "groups.mean_size=4"]
    assert precompute.main([*overrides(root), *groups]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["tokens"] == N_CODES + 1
    assert facts["mean_size"] == pytest.approx(4, rel=0.1)

    common = decoding(root, draft, "runs")
    assert decode.main([*common, "rule=group", *(f"rule.{key}" for key in groups)]) == 0
    assert decode.main([*common, "system=target"]) == 0
    (run,) = (root / "runs").glob("speculative-group-*")
    config = json.loads((run / "config.json").read_text())
    assert config["sampling"]["top_k"] == 50  # transformers' default, written out
    assert config["sampling"]["text_rows"] is True
    assert config["target"]["rows"]["date"] == "26 Jul 2024"
    rows = records(root / "runs", "speculative-group-*")
    assert all(max(row["codes"]) < N_CODES for row in rows if row["codes"])
    assert sum(row["rounds"] for row in rows) > 0

    assert evaluate.main([f"runs={root / 'runs'}", "metrics=[similarity]", "workers=1"]) == 0
    assert (run / "summary.json").is_file()
    assert report.main([f"runs={root / 'runs'}", f"out={root / 'results'}"]) == 0


def test_the_1b_drafts_for_the_8b_and_a_cut_head_is_recorded(root: Path) -> None:
    common = [*decoding(root, root / "1b", "cut"), "limit=1", "sampling=llasa_speech_rows"]
    assert decode.main([*common, "sampling.temperature=0", "sampling.max_tokens_per_word=8"]) == 0
    (run,) = (root / "cut").glob("speculative-exact-*")
    assert json.loads((run / "config.json").read_text())["sampling"]["text_rows"] is False
    (row,) = records(root / "cut")
    assert row["tokens"] == row["baseline_tokens"]  # greedy: the baseline's tokens


def test_pcg_with_its_papers_sampler_may_say_text(root: Path) -> None:
    """Groups are of codes; text rows of a whole head are alone, drafted, verified and left out."""
    common = [*decoding(root, root / "1b", "whole"), "sampling=pcg", "method=pcg"]
    groups = [f"rule.groups.cache={root / 'caches'}", "rule.groups.mean_size=4"]
    hot = "sampling.temperature=8"  # at 0.8 the golden weights hardly ever say text
    assert decode.main([*common, *groups, hot]) == 0
    (run,) = (root / "whole").glob("speculative-group-*")
    sampling = json.loads((run / "config.json").read_text())["sampling"]
    assert (sampling["top_k"], sampling["top_p"], sampling["text_rows"]) == (0, 1.0, True)
    rows = records(root / "whole")
    assert any(len(row["codes"]) < row["tokens"] for row in rows)  # some were text
    assert all(0 <= code < N_CODES for row in rows for code in row["codes"])


def test_audio_is_decoded_behind_its_prompt(root: Path) -> None:
    """As the model card does, of decoded and of swapped codes; they were decoded alone."""
    torch.manual_seed(0)
    sizes = SIZES | {"quantization_levels": [4, 4, 4, 4]}
    Xcodec2Model(Xcodec2Config(**sizes)).save_pretrained(root / "xcodec2")
    common = [*decoding(root, root / "1b", "card"), "codec=xcodec2", "limit=1"]
    common += [f"codec.path={root / 'xcodec2'}"]
    groups = [f"rule.groups.cache={root / 'caches'}", "rule.groups.mean_size=4"]
    assert decode.main([*common, "method=target"]) == 0
    assert decode.main([*common, "method=swap", *groups]) == 0
    codec = load_codec("xcodec2", root / "xcodec2")
    for name in ("target-*", "swap-*"):
        (row,) = records(root / "card", name)
        prompt = codec.encode(read_wave(Path(row["prompt_audio"]), 16_000))
        whole = codec.decode(np.concatenate([prompt, row["codes"]]))
        (audio,) = (root / "card").glob(f"{name}/{row['audio']}")
        wave = read_wave(audio, 16_000)
        np.testing.assert_allclose(wave, np.clip(whole[320 * len(prompt) :], -1, 1), atol=1e-4)


def test_heads_of_a_llasa_speak(root: Path) -> None:
    """Several speech ids a pass; with text rows in the head they do not fit, and that is said."""
    training = ["n=3", "steps=2", "batch_size=8", "sequences=4", "eval_every=2", "dev_utterances=2"]
    paths = [*overrides(root)[:2], f"codes={root / 'codes'}", f"out={root / 'heads'}"]
    assert train_heads.main([*paths, *training]) == 0
    options = [
        "system=multi_token",
        "viterbi.mode=none",
        "heads.n=3",
        f"heads.path={root / 'heads'}",
    ]
    run = [*decoding(root, root / "8b", "several"), *options, "sampling.text_rows=false"]
    assert decode.main([*run, "sampling.text_rows=true"]) == 2
    assert decode.main(run) == 0
    rows = records(root / "several")
    assert len(rows) == 2
    assert all(0 <= code < N_CODES for row in rows for code in row["codes"])
