"""An official VALL-E checkpoint: imported, heads trained on it, decoded with and without them."""

import json
import shutil
import string
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fake_models import write_fake_models
from small_target import save_codes
from valle_golden import small_valle, write_checkpoint

from speculative_tts.commands import decode, import_valle, train_heads
from speculative_tts.models.families.valle import text
from speculative_tts.models.families.valle.checkpoint import load_valle
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.importing import options_of
from speculative_tts.models.families.valle.layout import PhonemeLayout, read_layout
from speculative_tts.models.heads import read_heads
from speculative_tts.preflight.needs import needs
from speculative_tts.schema.evaluate import Paper
from speculative_tts.schema.prepare import Origin
from speculative_tts.training.trunk import hidden_states

GOLDEN = Path(__file__).parents[1] / "golden"
CONFIG = ValleConfig(dim=16, heads=2, layers=2, quantizers=8, n_codes=64, text_tokens=64)


def letters(sentences: list[str], **_: object) -> list[str]:
    """Stands in for espeak: each letter is a phoneme."""
    return ["_".join("|".join(word) for word in one.lower().split()) for one in sentences]


@pytest.fixture
def espeak(monkeypatch: pytest.MonkeyPatch) -> None:
    text.phonemes.cache_clear()
    monkeypatch.setattr(text, "_espeak", lambda _: (SimpleNamespace(phonemize=letters), None))


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What training leaves, a SpeechTokenizer, a test list, and a codes store."""
    root = tmp_path_factory.mktemp("official")
    write_checkpoint(root / "best.pt", small_valle(CONFIG), heads=CONFIG.heads)
    names = ["<eps>", "_", *string.ascii_lowercase]
    (root / "symbols").write_text("".join(f"{name} {i}\n" for i, name in enumerate(names)))
    (root / "codec").mkdir()
    golden = GOLDEN / "speechtokenizer"
    shutil.copy(golden / "config_snake.json", root / "codec/config.json")
    shutil.copy(golden / "SpeechTokenizer_snake.pt", root / "codec/SpeechTokenizer.pt")
    write_fake_models(root, utterances=1)
    save_codes(root / "codes")
    return root


def imported(official: Path, out: Path, *options: str) -> int:
    files = [f"checkpoint={official / 'best.pt'}", f"symbols={official / 'symbols'}"]
    return import_valle.main([*files, f"out={out}", *options])


def records(out: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted(out.rglob("records.jsonl"))]


@pytest.mark.usefixtures("espeak")
def test_it_is_imported_gets_heads_and_speaks(official: Path, tmp_path: Path) -> None:
    target, heads = tmp_path / "valle", tmp_path / "heads"
    assert imported(official, target) == 0
    numbers = "n=3 steps=30 batch_size=32 sequences=24 eval_every=30 dev_utterances=4"
    numbers += " learning_rate=0.05 warmup=1"
    where = [f"target.path={target}", "target.name=valle"]
    codes = f"codes={official / 'codes'}"
    assert train_heads.main([*where, codes, f"out={heads}", *numbers.split()]) == 0
    rows = list(map(json.loads, (heads / "training/metrics.jsonl").read_text().splitlines()))
    losses = [row["loss"] for row in rows if "loss" in row]
    assert np.mean(losses[-5:]) < 0.98 * np.mean(losses[:5])
    own = load_valle(target).ar.ar_predict_layer.weight
    assert np.allclose(read_heads(heads)[0].weight[0].float(), own.detach(), atol=1e-2)
    run = [*where, "codec=speechtokenizer", f"codec.path={official / 'codec'}"]
    run += [f"data.path={official / 'list.jsonl'}", "runtime.warmup=0", f"out={tmp_path / 'runs'}"]
    assert decode.main([*run, "method=target"]) == 0
    more = [f"heads.path={heads}", "heads.n=3", "viterbi.mode=none"]
    assert decode.main([*run, "method=mtp", *more]) == 0
    assert [row["unverified"] == row["tokens"] for row in records(tmp_path / "runs")] == [
        True,
        False,
    ]


@pytest.mark.usefixtures("espeak")
def test_a_trunk_trained_along_is_written_with_its_layers(official: Path, tmp_path: Path) -> None:
    target, out = tmp_path / "valle", tmp_path / "heads"
    assert imported(official, target) == 0
    options = "n=2 steps=2 joint.frames=40 dev_utterances=2 train_trunk=true"
    codes = f"codes={official / 'codes'}"
    where = [f"target.path={target}", "target.name=valle", codes, f"out={out}"]
    assert train_heads.main([*where, *options.split()]) == 0
    before, after = load_valle(target), load_valle(out / "target")
    assert not after.ar.ar_predict_layer.weight.equal(before.ar.ar_predict_layer.weight)
    assert after.nar.nar_text_embedding.weight.equal(before.nar.nar_text_embedding.weight)
    assert read_layout(out / "target") == read_layout(target)


@pytest.mark.usefixtures("espeak")
def test_from_nothing_to_what_make_mtp_reads(
    official: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the places of docs/paper-scale.md: fresh weights, the recipe, preflight, an experiment."""
    monkeypatch.chdir(tmp_path)
    codes = tmp_path / "data/speechtokenizer/codes"
    codes.parent.mkdir(parents=True)
    save_codes(codes, layers=8)
    sizes = ["fresh.dim=16", "fresh.layers=2", "fresh.n_codes=64", "heads=2"]
    fresh = [f"fresh.codes={codes}", "out=models/valle_start"]
    assert import_valle.main([*fresh, *sizes]) == 0
    assert read_layout(Path("models/valle_start")).words[0] == "<eps>"
    numbers = ["joint.epochs=1", "joint.nar_epochs=1", "joint.shortest=1", "device=cpu"]
    assert train_heads.main(["recipe=valle_heads", "dtype=float32", *numbers]) == 0
    wanted = {need.item: need for need in needs(Path("models"))[Paper.mtp]}
    for item in ("models/valle", "models/valle_heads"):
        assert wanted[item].lacking() is None
    run = ["experiment=mtp/paper_table1_valle", f"codec.path={official / 'codec'}"]
    known = official / "known.jsonl"  # phonemes of the corpus alone
    known.write_text((official / "list.jsonl").read_text().replace('"two"', '"bravo"'))
    run += [f"data.path={known}", "runtime.device=cpu", "runtime.dtype=float32"]
    run += ["method=mtp", "heads.n=8", "viterbi.mode=none", "runtime.warmup=0"]
    assert decode.main([*run, "data.name=test_clean"]) == 0
    assert [row["unverified"] == row["tokens"] for row in records(tmp_path / "runs")] == [True]


def test_phonemes_get_the_official_ids(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    golden = json.loads((GOLDEN / "valle/text_frontend.json").read_text())
    spoken = dict(zip(golden["sentences"], golden["raw_phonemized"], strict=True))
    espeak = SimpleNamespace(phonemize=lambda texts, **_: [spoken[one] for one in texts])
    monkeypatch.setattr(text, "_espeak", lambda _: (espeak, None))
    text.phonemes.cache_clear()
    write_checkpoint(tmp_path / "best.pt", small_valle(CONFIG), heads=CONFIG.heads)
    shutil.copy(GOLDEN / "valle/text_symbols.k2symbols", tmp_path / "symbols")
    assert imported(tmp_path, tmp_path / "out") == 0
    layout = read_layout(tmp_path / "out")
    assert isinstance(layout, PhonemeLayout)
    for sentence, ids, length in zip(
        golden["sentences"], golden["ids"], golden["lens"], strict=True
    ):
        marked = [layout.sos_id, *layout.text_ids(sentence), layout.task_id]
        assert marked == ids[:length]
        assert layout.limits(sentence, 9, 0, 16) == (0, 16 * (length - 2))


def test_what_a_file_does_not_say_is_assumed_and_said(
    official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The published USLM.pt: its own code takes options from the command line (prefix mode 0)."""
    bare, out = tmp_path / "USLM.pt", tmp_path / "out"
    torch.save({"model": small_valle(CONFIG).state()}, bare)
    assert imported(official, out, f"checkpoint={bare}", "model=uslm") == 0
    said = capsys.readouterr().out
    assert "does not say, so assumed: prefix_mode 0, USLM's; heads 16, the official number" in said
    config = json.loads((out / "config.json").read_text())
    assert (config["prefix_mode"], config["heads"]) == (0, 16)
    sampling = read_layout(out).sampling
    assert (sampling["end_when_likeliest"], sampling["top_k"], sampling["top_p"]) == (True, 0, 1)
    assert imported(official, out, f"checkpoint={bare}") == 0
    assert "a model of VALL-E (model=uslm for the other); prefix_mode 1" in capsys.readouterr().out
    assert json.loads((out / "config.json").read_text())["prefix_mode"] == 1


@pytest.mark.parametrize(
    ("written", "given", "expected"),
    [
        ({"model_name": "uslm", "nhead": 4, "prefix_mode": 1}, {}, (4, 0)),
        ({"model_name": "USLM", "nhead": 4}, {"prefix_mode": 2}, (4, 2)),
        ({"model_name": "valle", "nhead": 4, "prefix_mode": 2}, {}, (4, 2)),
        ({"model_name": "valle", "nhead": 4, "prefix_mode": 2}, {"origin": Origin.uslm}, (4, 0)),
        ({"nhead": 4, "prefix_mode": 0, "model_name": "x"}, {"heads": 8}, (8, 0)),
    ],
)
def test_options_that_are_given_or_written(
    written: dict[str, object], given: dict[str, Any], expected: tuple[int, int]
) -> None:
    options = options_of(written, **{"origin": None, **given})
    assert (options.heads, options.prefix_mode) == expected


def test_files_that_do_not_belong_together(
    official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = tmp_path / "many"
    many.write_text("".join(f"s{i} {i}\n" for i in range(99)))
    bare = official / "best.pt"
    cases = {
        f"symbols={many}": "has 102 symbols",
        f"symbols={tmp_path / 'none'}": "symbol table",
        f"heads=2 checkpoint={official / 'codec/SpeechTokenizer.pt'}": "no tensor ar_",
    }
    for option, message in cases.items():
        assert imported(official, tmp_path / "out", *option.split()) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out/speech.json").exists()
    folder = tmp_path / "bare"
    folder.mkdir()
    shutil.copy(bare, folder)
    assert decode.main([f"target.path={folder}", "method=target", f"out={tmp_path / 'runs'}"]) == 2
    assert "sst-import-valle" in capsys.readouterr().err


def test_states_of_a_padded_batch_are_those_of_its_rows() -> None:
    """With 7 text ids, codes begin at 7; -1 pads."""
    ar = small_valle(CONFIG).ar
    rows = [[1, 5, 2, 7, 9, 30], [1, 2, 8, 9]]
    batch = torch.full((2, 6), -1)
    for index, row in enumerate(rows):
        batch[index, : len(row)] = torch.tensor(row)
    found = hidden_states(ar, batch, 7)
    for index, (row, texts) in enumerate(zip(rows, (3, 2), strict=True)):
        text, codes = torch.tensor([row[:texts]]), torch.tensor([row[texts:]]) - 7
        torch.testing.assert_close(found[index, texts : len(row)], ar.hidden(text, codes)[0])
        assert not found[index, :texts].any()
