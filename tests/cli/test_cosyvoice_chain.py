"""A CosyVoice-shaped checkpoint through the whole chain, the tiny codec standing in for its own."""

import io
import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch
from cosyvoice_folders import write_official
from official_cosyvoice import official
from run_records import records
from small_target import save_codes

from speculative_tts.assets import resolve
from speculative_tts.codecs.audio import read_wave
from speculative_tts.codecs.cosyvoice import N_CODES, CosyVoiceCodec
from speculative_tts.commands import decode, precompute, report, speak, train_draft
from speculative_tts.commands import eval as evaluate
from speculative_tts.integrations.cosyvoice import Inference
from speculative_tts.models.families import cosyvoice
from speculative_tts.records import read_list

TINY_CODES = 2048
LIST = "tiny:testset/list.jsonl"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target of 4 layers, codes to learn from, and a trained draft of layers 0 and 3."""
    root = tmp_path_factory.mktemp("chain")
    write_official(root / "target", TINY_CODES)
    save_codes(root / "codes")
    options = ["target.name=cosy", f"target.path={root / 'target'}", f"codes={root / 'codes'}"]
    options += ["layers=[0,3]", "train_layers=1", "steps=20", "batch_size=4", "warmup=1"]
    options += ["learning_rate=0.02", "eval_every=10"]
    options += ["dev_utterances=4", "dtype=bfloat16", "gradient_checkpointing=true"]
    assert train_draft.main([*options, f"out={root / 'draft'}"]) == 0
    return root


def test_the_draft_is_a_cosyvoice_folder_trained_by_the_papers_policy(root: Path) -> None:
    """Of 4 layers two; the lower one and the head are trained, all else is the target's."""
    target, draft = (cosyvoice.read_checkpoint(root / name) for name in ("target", "draft"))
    assert draft.config["num_hidden_layers"] == 2
    changed = set()
    for name, tensor in draft.state.items():
        source = name.replace("model.layers.1.", "model.layers.3.")
        if not tensor.equal(target.state[source]):
            changed.add(name)
    assert "lm_head.weight" in changed
    assert all(name.startswith(("model.layers.0.", "lm_head.")) for name in changed)
    assert json.loads((root / "draft/inheritance.json").read_text())["layers"] == [0, 3]


@pytest.mark.whole
def test_groups_decode_eval_and_report(root: Path, tmp_path: Path) -> None:
    runs, caches = tmp_path / "runs", f"groups.cache={tmp_path / 'caches'}"
    models = [f"target.path={root / 'target'}", "target.name=cosy"]
    assert precompute.main(["cache=groups", *models, caches]) == 0
    models += [f"draft.path={root / 'draft'}", "draft.name=cosy-draft"]
    short = ["sampling.min_tokens_per_word=0.2", "sampling.max_tokens_per_word=0.5"]
    common = [*models, *short, "limit=1", "runtime.warmup=0", "instrument=1", f"out={runs}"]
    for method in (["method=exact"], ["method=ssd"], ["method=pcg", f"rule.{caches}"]):
        assert decode.main([*common, *method]) == 0
    folders = list(runs.glob("speculative-*"))
    assert len(folders) == 3
    for folder in folders:
        config = json.loads((folder / "config.json").read_text())
        assert (config["sampling"]["ras_window"], config["sampling"]["ras_tau"]) == (10, 0.1)
        (row,) = records(runs, folder.name)
        assert all(0 <= code < TINY_CODES for code in row["codes"])
    assert evaluate.main([f"runs={runs}", "metrics=[wer]", "workers=1", "draws=100"]) == 0
    assert report.main([f"runs={runs}", f"out={tmp_path / 'results'}"]) == 0
    assert (tmp_path / "results/index.html").is_file()


def test_cosyvoice_3_learns_from_a_corpus_and_speaks_a_list(tmp_path: Path) -> None:
    """Neither has an instruction; the target's configuration gives it, to the draft too."""
    write_official(tmp_path / "target", TINY_CODES, version=3)
    save_codes(tmp_path / "codes")
    target = ["target=cosyvoice3", f"target.path={tmp_path / 'target'}"]
    options = ["layers=[0,3]", "steps=2", "batch_size=2", "dev_utterances=2", "warmup=1"]
    options += [f"codes={tmp_path / 'codes'}", f"out={tmp_path / 'draft'}"]
    assert train_draft.main([*target, *options]) == 0
    short = ["sampling.min_tokens_per_word=0.2", "sampling.max_tokens_per_word=0.5"]
    run = [f"draft.path={tmp_path / 'draft'}", "limit=1", "runtime.warmup=0", "instrument=0"]
    assert decode.main([*target, *short, *run, f"out={tmp_path / 'runs'}"]) == 0
    (row,) = records(tmp_path / "runs")
    assert row["tokens"] > 0


@pytest.fixture
def speaking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Settings of a target and its draft whose audio the stand-ins make."""
    official(monkeypatch)
    monkeypatch.setattr(CosyVoiceCodec, "_tokens", lambda _, mel: [*range(mel.shape[1] // 4)])
    folder = tmp_path / "model"
    for name in ("model", "draft"):
        write_official(tmp_path / name, N_CODES)
    (folder / "speech_tokenizer_v2.onnx").touch()
    models = ["target=cosyvoice2", f"target.path={folder}", f"codec.path={folder}"]
    models += ["codec=cosyvoice2", "draft=cosyvoice2", f"draft.path={tmp_path / 'draft'}"]
    return [*models, "data=tiny", "runtime.warmup=0"]


def test_speech_comes_in_pieces_from_the_official_flow(
    speaking: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Drafted and verified, cut at blocks of prompt and speech; together every code once."""
    length = ["sampling.min_tokens_per_word=20", "sampling.max_tokens_per_word=30"]
    said, waves = ["text=alpha two", *speaking, *length], []
    for name in ("whole", "pieces"):
        own = ["stream=true", "chunk=10"] if name == "pieces" else []
        assert speak.main([*said, *own, f"out={tmp_path / name}.wav"]) == 0
        waves.append(soundfile.read(tmp_path / f"{name}.wav", dtype="int16")[0])
    assert np.array_equal(*waves)
    assert len(waves[0]) >= 40 * 960
    told = capsys.readouterr().err
    pieces = int(told.partition(" pieces")[0].split()[-1])
    assert pieces >= 3
    assert "accepted" in told


class Typing:
    """Standard input on which text arrives bit by bit; says how much was heard before each bit."""

    def __init__(self, *bits: str, heard: io.BytesIO) -> None:
        self.buffer, self.before, self._heard = self, list[int](), heard
        self._bits = iter([*(bit.encode() for bit in bits), b""])

    def read1(self) -> bytes:
        self.before.append(len(self._heard.getvalue()))
        return next(self._bits)


TEXT = "alpha two, bravo seven lima nine; kilo 7 8 and echo four to whiskey five again"
PIECES = ["text=-", "stream=true", "chunk=5", "encoding=raw", "out=-", "prompt=slt_f100_p100"]


def listen(
    monkeypatch: pytest.MonkeyPatch, speaking: list[str], *bits: str, own: Sequence[str] = ()
) -> tuple[int, bytes, Typing]:
    """sst-speak while bits of text arrive: its exit code, what it put out, its input."""
    heard = io.BytesIO()
    typing = Typing(*bits, heard=heard)
    monkeypatch.setattr(sys, "stdin", typing)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=heard, flush=lambda: None))
    code = speak.main([*speaking, *PIECES, "sampling.max_tokens_per_word=4", *own])
    return code, heard.getvalue(), typing


@pytest.mark.parametrize("version", [2, 3])
def test_text_arrives_while_it_is_spoken(
    speaking: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    version: int,
) -> None:
    """The codes of the Python bistream, however the text is cut; heard before it has ended."""
    folder = tmp_path / "model"
    if version == 3:
        folder = tmp_path / "three"
        state = write_official(folder, N_CODES, version=3)
        state["llm_decoder.weight"][N_CODES:] = 0  # 200 ids of which few may be said here
        torch.save(state, folder / "llm.pt")
        (folder / "speech_tokenizer_v3.onnx").touch()
        speaking += ["target=cosyvoice3", f"target.path={folder}", f"codec.path={folder}"]
    code, heard, typing = listen(monkeypatch, speaking, TEXT[:40], TEXT[40:70], f"{TEXT[70:]}\n")
    assert code == 0
    told = capsys.readouterr().err
    assert "one by one" in told
    assert 0 < typing.before[1] < typing.before[2] < len(heard)
    _, again, _ = listen(monkeypatch, speaking, *TEXT.replace(" ", "\n  "))
    assert again == heard

    made = Inference.load(folder)
    instruction = "You are a helpful assistant.<|endofprompt|>" if version == 3 else ""
    prompt = next(item for item in read_list(resolve(LIST)) if item.speaker == "slt_f100_p100")
    voice = CosyVoiceCodec.load(folder).encode_prompt(read_wave(Path(prompt.prompt_audio), 24_000))
    texts = (made.layout.encode(text) for text in (TEXT, instruction + prompt.prompt_text))
    text, before = (torch.tensor([ids]) for ids in texts)
    spoken = torch.as_tensor(voice)[None]
    expected = made.bistream(text.T, prompt_text=before, prompt_speech_token=spoken)
    codes = np.frombuffer(heard, "<i2")[::960].tolist()
    assert codes == [*islice(expected, 4 * text.shape[1])]


def test_a_pipe_of_text_that_ends_is_told_in_one_line(
    speaking: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a word of text; with a player that leaves."""
    for bits in ((), (" \n", "\n")):
        code, heard, _ = listen(monkeypatch, speaking, *bits)
        assert (code, heard) == (2, b"")
        (line,) = capsys.readouterr().err.splitlines()
        assert "no text on standard input, which text=- reads; pipe some in" in line
    code, _, _ = listen(monkeypatch, speaking, TEXT, own=["out=x.raw", "player=false"])
    assert code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert 'player "false" ended with 1' in line
