"""Files as other people's tools leave them, through the commands alone: each test tells its bug."""

import argparse
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from cosyvoice_folders import write_official
from fake_models import tone, write_codec, write_fake_models
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from speculative_tts.assets import resolve
from speculative_tts.commands import decode, prepare
from speculative_tts.commands import eval as evaluate
from speculative_tts.schema.rules import ExactRule, RuleConfig

GOLDEN = Path(__file__).parents[1] / "golden" / "llasa"
N_CODES = 256
Err = pytest.CaptureFixture[str]
Packed = tuple[Tensor, str, Tensor, Tensor]  # stored, name of its scale, scale, what both mean


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list of two rows and a codec of as many codes as the golden checkpoints have."""
    root = tmp_path_factory.mktemp("stack")
    write_fake_models(root, utterances=2)
    shutil.rmtree(root / "codec")
    write_codec(root / "codec", np.random.default_rng(0), n_codes=N_CODES)
    return root


def decoding(stack: Path, target: Path, out: Path, *more: str) -> list[str]:
    return [
        *(f"target.path={target}", "target.name=x", f"codec.path={stack / 'codec'}"),
        *(f"data.path={stack / 'list.jsonl'}", f"out={out}", "method=target"),
        *("sampling.temperature=0", "sampling.max_tokens_per_word=4", "timing=0"),
        *("runtime.warmup=0", "instrument=0", *more),
    ]


def codes(stack: Path, target: Path, out: Path) -> list[list[int]]:
    """Return what a target says, greedily."""
    assert decode.main(decoding(stack, target, out)) == 0
    (records,) = out.glob("*/records.jsonl")
    return [json.loads(line)["codes"] for line in records.read_text().splitlines()]


def one_line(capsys: Err) -> str:
    """Return the last line of stderr, after which nothing may have gone wrong unnoticed."""
    told = capsys.readouterr().err
    assert "Traceback" not in told
    return told.splitlines()[-1]


def fp8(name: str, weight: Tensor) -> Packed:
    """Quantise a matrix with one scale, as compressed-tensors stores it."""
    scale = weight.abs().max() / 448
    stored = (weight / scale).to(torch.float8_e4m3fn)
    return stored, f"{name}_scale", scale.reshape(1), stored.float() * scale


def int8(name: str, weight: Tensor) -> Packed:
    """Quantise a matrix with a scale a row, as bitsandbytes stores it."""
    scale = weight.abs().amax(1)
    stored = (weight / scale[:, None] * 127).round().to(torch.int8)
    return stored, name.replace(".weight", ".SCB"), scale, stored.float() * scale[:, None] / 127


@pytest.mark.parametrize(
    ("quantised", "method"), [(fp8, "compressed-tensors"), (int8, "bitsandbytes")]
)
def test_quantised_weights_speak_as_their_dequantised_copy(
    stack: Path, tmp_path: Path, quantised: Callable[[str, Tensor], Packed], method: str
) -> None:
    """Scales of fp8 and int8 weights were left out; sst-decode spoke garbage, exit code 0."""
    packed = load_file(GOLDEN / "model_1b_style/model.safetensors")
    plain = dict(packed)
    for name, weight in plain.items():
        if weight.ndim == 2 and ".layers." in name:
            stored, scale_name, scale, meant = quantised(name, weight.float())
            packed |= {name: stored, scale_name: scale}
            plain[name] = meant.to(weight.dtype)
    for name, state in (("packed", packed), ("plain", plain)):
        shutil.copytree(GOLDEN / "model_1b_style", tmp_path / name)
        save_file(state, tmp_path / name / "model.safetensors")
    path = tmp_path / "packed/config.json"
    config = json.loads(path.read_text()) | {"quantization_config": {"quant_method": method}}
    path.write_text(json.dumps(config))
    said = [
        codes(stack, tmp_path / name, tmp_path / f"runs-{name}") for name in ("packed", "plain")
    ]
    assert said[0] == said[1]


def test_an_end_that_is_also_a_code_is_refused(stack: Path, tmp_path: Path, capsys: Err) -> None:
    """Orpheus' sentinels and codes share one name; 670 ids were read for 669 rows."""
    tokenizer = AutoTokenizer.from_pretrained(GOLDEN / "model_1b_style")
    tokenizer.add_tokens([f"<custom_token_{number}>" for number in range(N_CODES)])
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 512}
    config = LlamaConfig(vocab_size=len(tokenizer), **sizes, **heads)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "orpheus")
    tokenizer.save_pretrained(tmp_path / "orpheus")
    rows = {"code": "<custom_token_{}>", "end": "<custom_token_2>", "chat": "false"}
    rows |= {"user": "<custom_token_3>{text}<custom_token_4>", "assistant": "<custom_token_1>"}
    given = [f"target.rows.{key}='{value}'" for key, value in rows.items()]
    assert decode.main(decoding(stack, tmp_path / "orpheus", tmp_path / "runs", *given)) == 2
    assert "<custom_token_2>" in one_line(capsys)
    assert not list(tmp_path.glob("runs/*/records.jsonl"))


def test_accents_digits_and_texts_without_words_distort_no_rate(
    tmp_path: Path, capsys: Err
) -> None:
    """An accent split its word, a digit was an edit unflagged, "..." added insertions."""
    row = json.loads(resolve("tiny:testset/list.jsonl").read_text().splitlines()[0])
    audio = str(resolve(f"tiny:testset/{row['reference_audio']}"))
    text = str(row["text"])
    accented = text.translate(str.maketrans("aeiou", "áéíóú"))
    texts = {"plain": text, "accented": accented, "digit": f"{text} 7", "none": "... \u4f60"}
    rows = [{"id": key, "text": said, "audio": audio} for key, said in texts.items()]
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    asked = [f"list={tmp_path / 'list.jsonl'}", f"out={tmp_path / 'scores'}", "workers=1"]
    assert evaluate.main([*asked, "metrics=[wer]", "draws=100"]) == 0
    lines = (tmp_path / "scores/scores.jsonl").read_text().splitlines()
    scores = {one["id"]: one for one in map(json.loads, lines)}
    edits = {key: edits_of(one) for key, one in scores.items()}
    assert accented != text
    assert edits["accented"] == edits["plain"]
    assert scores["accented"]["words"] == scores["plain"]["words"]
    assert "numerals" in scores["digit"]["flags"]
    assert "other_script" in scores["none"]["flags"]
    spoken = ["plain", "accented", "digit"]
    words = sum(scores[key]["words"] for key in spoken)
    figures = json.loads((tmp_path / "scores/summary.json").read_text())["metrics"]
    assert figures["wer"]["value"] == pytest.approx(sum(edits[key] for key in spoken) / words)
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "no words" in one]
    assert "none" in line


def edits_of(row: dict[str, Any]) -> int:
    return sum(row[edit] or 0 for edit in ("substitutions", "deletions", "insertions"))


@pytest.mark.parametrize(
    ("name", "content"),
    [("._8230_2_000001_000000.wav", b"\0\5\26\7\0\2\0\0Mac OS X"), ("8230_2_9_0.wav", b"")],
)
def test_files_that_are_no_audio_are_named_and_left_out(
    tmp_path: Path, capsys: Err, name: str, content: bytes
) -> None:
    """`._x.wav` of a Mac and a wav of 0 bytes ended sst-prepare in a traceback."""
    noise = np.random.default_rng(0).standard_normal(72_000) / 20
    for speaker, chapter in (("4077", "1"), ("4077", "2"), ("8230", "1"), ("8230", "2")):
        folder = tmp_path / "LibriTTS/test-clean" / speaker / chapter
        folder.mkdir(parents=True)
        key = f"{speaker}_{chapter}_000000_000000"
        soundfile.write(folder / f"{key}.wav", noise, 24_000)
        for kind in ("normalized", "original"):
            (folder / f"{key}.{kind}.txt").write_text("hello there")
    (folder / name).write_bytes(content)
    out = tmp_path / "out"
    asked = ["corpus=list", "format=random", "rows=null", "parts=[test-clean]"]
    assert prepare.main([*asked, f"path={tmp_path}", f"out={out}"]) == 0
    ids = {json.loads(line)["id"] for line in (out / "list.jsonl").read_text().splitlines()}
    assert len(ids) == 4
    assert name.removesuffix(".wav") not in ids
    assert f"{name}; left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    "index",
    [
        '{"weight_map": {',
        '{"metadata": {}}',
        "[]",
        '{"weight_map": null}',
        '{"weight_map": {"a": 5}}',
    ],
)
def test_an_odd_index_is_named(stack: Path, tmp_path: Path, capsys: Err, index: str) -> None:
    """KeyError, TypeError, or a message without the file."""
    shutil.copytree(GOLDEN / "model_3b_style", tmp_path / "model")
    (tmp_path / "model/model.safetensors.index.json").write_text(index)
    assert decode.main(decoding(stack, tmp_path / "model", tmp_path / "runs")) == 2
    assert "model.safetensors.index.json" in one_line(capsys)


def test_a_published_list_edited_on_windows_is_clean(stack: Path, tmp_path: Path) -> None:
    """The byte order mark became part of the first id, U+2028 ended a good row."""
    shutil.copy(stack / "prompt0.wav", tmp_path / "p.wav")
    text = "u0|one two|p.wav|alpha bravo\r\nu1|one two|p.wav|alpha\u2028bravo\r\n"
    (tmp_path / "meta.lst").write_bytes(text.encode("utf-8-sig"))
    asked = ["corpus=list", "format=seedtts", f"list_file={tmp_path / 'meta.lst'}"]
    assert prepare.main([*asked, f"out={tmp_path / 'out'}"]) == 0
    rows = map(json.loads, (tmp_path / "out/list.jsonl").read_text().splitlines())
    assert [(one["id"], one["text"]) for one in rows] == [
        ("u0", "alpha bravo"),
        ("u1", "alpha\u2028bravo"),
    ]


def test_a_jsonl_list_edited_on_windows_is_read(stack: Path, tmp_path: Path) -> None:
    """A byte order mark made the first row no JSON."""
    row = json.loads((stack / "list.jsonl").read_text().splitlines()[0])
    text = json.dumps(row | {"prompt_audio": str(stack / "prompt0.wav")}) + "\r\n"
    (tmp_path / "list.jsonl").write_bytes(text.encode("utf-8-sig"))
    target = GOLDEN / "model_1b_style"
    given = decoding(stack, target, tmp_path / "runs", f"data.path={tmp_path / 'list.jsonl'}")
    assert decode.main(given) == 0


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda state: {"module": state, "ds_version": "0.14", "global_steps": 3},
        lambda state: {"state_dict": state, "args": argparse.Namespace(lr=0.1)},
    ],
    ids=["deepspeed", "namespace"],
)
def test_what_trainers_wrap_around_llm_pt_is_unwrapped(
    stack: Path, tmp_path: Path, wrapped: Callable[[Any], Any]
) -> None:
    """DeepSpeed's `module` and a Namespace inside had the remedy of a torn file."""
    state = write_official(tmp_path / "plain", N_CODES, layers=1)
    shutil.copytree(tmp_path / "plain", tmp_path / "wrapped")
    torch.save(wrapped(state), tmp_path / "wrapped/llm.pt")
    said = [codes(stack, tmp_path / n, tmp_path / f"runs-{n}") for n in ("plain", "wrapped")]
    assert said[0] == said[1]


def test_many_missing_files_are_counted_and_five_are_named(tmp_path: Path, capsys: Err) -> None:
    """20,000 missing files printed 20,000 lines."""
    soundfile.write(tmp_path / "there.wav", tone(np.random.default_rng(0), seconds=0.5), 16_000)
    names = ["there", *(f"gone{number}" for number in range(40))]
    rows = [{"id": name, "text": "one", "audio": f"{name}.wav"} for name in names]
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    asked = [f"list={tmp_path / 'list.jsonl'}", f"out={tmp_path / 'scores'}", "workers=1"]
    evaluate.main([*asked, "metrics=[wer]", "draws=100"])
    told = capsys.readouterr()
    text = told.out + told.err
    assert "40" in text
    assert sum(f"gone{number}.wav" in text for number in range(40)) <= 5
    assert len(text.splitlines()) < 20


@dataclass
class Power(ExactRule):
    """A rule that comes later, one of whose keys an older rule has too."""

    name: str = "power"
    alpha: float = 0.5
    exponent: float = 1.0


def test_a_later_rule_changes_no_older_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new rule with a key `alpha` made the old command `rule.alpha=0.3` ambiguous."""
    rules = [*RuleConfig.__subclasses__(), Power]
    monkeypatch.setattr(RuleConfig, "__subclasses__", staticmethod(lambda: rules))
    assert decode.main.compose(["target=tiny", "rule.alpha=0.3"]).rule.name == "typical"
