"""sst-check paper: what the papers lack here, and that nothing is missing when all is here."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from valle_golden import SMALL, small_valle

from speculative_tts.assets import resolve
from speculative_tts.commands.check import main
from speculative_tts.models.families import cosyvoice
from speculative_tts.models.families.cosyvoice_export import write_checkpoint
from speculative_tts.models.families.valle.checkpoint import save_valle
from speculative_tts.models.heads import HeadTensors, save_heads
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.preflight import needs, paper
from speculative_tts.preflight.table import CheckedItem
from speculative_tts.records import ListItem, to_row, write_jsonl

GOLDEN = Path(__file__).parents[1] / "golden"
COSYVOICE = GOLDEN / "cosyvoice2/small"
SHIPPED = resolve("tiny:codec_residual_transitions")
DRAFT = "runs/draft-cosyvoice2"


def write_draft(folder: Path) -> None:
    """A draft of CosyVoice as the exporter leaves it."""
    whole = cosyvoice.read_checkpoint(COSYVOICE)
    kept = {name: t for name, t in whole.state.items() if ".layers." not in name}
    layer = {n: t for n, t in whole.state.items() if n.startswith("model.layers.0.")}
    write_checkpoint(folder, COSYVOICE, kept | layer, [0])


def write_rows(folder: Path, *, shards: int, model_type: str = "llama") -> None:
    """A folder of transformers with a tokenizer, its weights in one file or in shards."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (folder / "tokenizer.json").write_text("{}")
    names = [f"model-{i:05d}-of-{shards:05d}.safetensors" for i in range(1, shards + 1)]
    names = names if shards > 1 else ["model.safetensors"]
    for name in names:
        save_file({name: torch.zeros(100)}, folder / name)
    if shards > 1:
        index = {"weight_map": {name: name for name in names}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_valle(folder: Path, heads: Path) -> None:
    """A VALL-E as it is exported, and heads of it."""
    valle = small_valle()
    save_valle(valle, folder)
    SpeechLayout.merged(SMALL.n_codes, ("a", "b")).save(folder)
    save_heads(heads, HeadTensors(torch.zeros(2, SMALL.n_codes + 1, SMALL.dim)), target=folder)


def write_everything(root: Path) -> None:
    """All that the papers' runs read, below `root`, as small as it can be."""
    models = root / "models"
    cosy, codec = models / "CosyVoice2-0.5B", models / "speechtokenizer_hubert_avg"
    shutil.copytree(COSYVOICE, cosy)
    for name in ("speech_tokenizer_v2.onnx", "flow.pt", "hift.pt", "campplus.onnx"):
        (cosy / name).write_bytes(b"weights")
    write_rows(models / "Llasa-8B", shards=2)
    write_rows(models / "xcodec2-hf", shards=1, model_type="xcodec2")
    write_rows(root / "runs/draft-llasa-8b", shards=1)
    for name in ("valle", "uslm"):
        write_valle(models / name, models / f"{name}_heads")
    codec.mkdir()
    for name in ("config.json", "SpeechTokenizer.pt"):
        (codec / name).write_bytes(b"{}")
    shutil.copytree(SHIPPED, models / "speechtokenizer_hubert_avg_transitions")
    write_draft(root / DRAFT)
    (root / "prompt.flac").write_bytes(b"fLaC")
    item = ListItem("1", "one", "../../prompt.flac", "two")
    for name in ("unicats_b", "test_clean_500", "test_clean"):
        write_jsonl(root / "data" / name / "list.jsonl", [to_row(item)])


def write_codes(folder: Path) -> None:
    """Shards of both splits."""
    folder.mkdir(parents=True)
    for split in ("train", "dev"):
        (folder / f"{split}-00000.parquet").write_bytes(b"PAR1")


@pytest.fixture
def big_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory on a machine with all judges and packages, a large disk and GPU."""
    monkeypatch.chdir(tmp_path)
    heard = CheckedItem("whisper", "judges=ssd", True, "runs here")
    monkeypatch.setattr(paper, "judges", lambda *_: [heard])
    monkeypatch.setattr(needs, "_is_found", lambda _: True)
    usage = shutil.disk_usage(tmp_path)._replace(free=10_000 * 2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(paper, "_gpu", lambda _: CheckedItem("GPU memory", "all", True, "80 GiB"))
    return tmp_path


Rows = Callable[..., dict[str, str]]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Rows:
    """Run the check; state and remedy by item. Its exit code must be 1 if anything is missing."""

    def run(*options: str) -> dict[str, str]:
        code = main(["paper", "probe=false", *options])
        head, *rows, count = capsys.readouterr().out.splitlines()
        starts = head.index("state")
        found = {row[: head.index("for ")].strip(): row[starts:] for row in rows}
        here, total = (int(word) for word in count.split() if word.isdigit())
        assert code == int(here < total)
        assert total == len(found)
        return found

    return run


def test_nothing_is_missing_where_all_is(big_machine: Path, check: Rows) -> None:
    write_everything(big_machine)
    assert {state.split()[0] for state in check().values()} <= {
        "here",
        "runs",
        "9999",
        "80",
        "10000",
    }
    assert main(["paper", "probe=false"]) == 0


def test_what_is_missing_has_its_command(
    tmp_path: Path, check: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    found = check("models=m")
    assert "CosyVoice2-0.5B --local-dir m/CosyVoice2-0.5B" in found["m/CosyVoice2-0.5B"]
    assert "--exclude" not in found["m/CosyVoice2-0.5B"]
    assert "hf download HKUSTAudio/Llasa-8B" in found["m/Llasa-8B"]
    assert "sst-train-draft recipe=cosyvoice2" in found[DRAFT]
    assert "sst-prepare corpus=list" in found["data/unicats_b/list.jsonl"]
    recipe = "sst-train-heads recipe=uslm_heads target.path=m/uslm_start target_out=m/uslm"
    assert found["m/uslm"].partition(recipe)[1] == found["m/uslm_heads"].partition(recipe)[1] != ""
    assert "sst-import-valle fresh.codes=data/speechtokenizer/codes" in found["m/valle_start"]
    assert "git clone --recursive" in found["CosyVoice's own code"]
    assert torch.cuda.is_available() or "no GPU" in found["GPU memory"]


@pytest.mark.parametrize(
    ("damage", "item", "state"),
    [
        (f"{DRAFT}/llm.pt", DRAFT, "missing"),
        ("models/CosyVoice2-0.5B/flow.pt", "models/CosyVoice2-0.5B", "missing: flow.pt"),
        ("models/CosyVoice2-0.5B/campplus.onnx", "models/CosyVoice2-0.5B", "missing: campplus"),
        (
            "models/Llasa-8B/model-00002-of-00002.safetensors",
            "models/Llasa-8B",
            "missing: shard 2 of 2",
        ),
        ("models/xcodec2-hf/config.json", "models/xcodec2-hf", "missing: config.json"),
        ("models/valle/speech.json", "models/valle", "missing: speech.json"),
        ("models/uslm_heads/heads.json", "models/uslm_heads", "missing: heads.json"),
        ("prompt.flac", "data/test_clean/list.jsonl", "missing: 1 of 1 recordings"),
    ],
)
def test_a_file_that_a_run_reads_is_missed(
    damage: str, item: str, state: str, big_machine: Path, check: Rows
) -> None:
    write_everything(big_machine)
    (big_machine / damage).unlink()
    assert check()[item].startswith(state)


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("Llasa-8B/model-00001-of-00002.safetensors", "cut off: shard 1 of 2"),
        ("CosyVoice2-0.5B/llm.pt", "cut off: llm.pt"),
    ],
)
def test_a_cut_download_is_told(path: str, state: str, big_machine: Path, check: Rows) -> None:
    write_everything(big_machine)
    file = big_machine / "models" / path
    file.write_bytes(file.read_bytes()[:-100])
    assert check()[f"models/{path.partition('/')[0]}"].startswith(state)


def test_heads_of_other_weights_are_told(big_machine: Path, check: Rows) -> None:
    write_everything(big_machine)
    save_valle(small_valle(seed=4), big_machine / "models/valle")
    assert check()["models/valle_heads"].startswith("of other weights")
    assert check()["models/uslm_heads"].startswith("here")


def test_packages_are_looked_for(
    big_machine: Path, check: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_everything(big_machine)
    monkeypatch.setattr(needs, "_is_found", lambda name: name != "matcha")
    assert check()["CosyVoice's own code"].startswith("missing: matcha")


def test_disk_counts_what_is_still_to_be_made(big_machine: Path, check: Rows) -> None:
    write_everything(big_machine)
    (disk,) = (state for item, state in check("only=[pcg]").items() if item.startswith("free disk"))
    rehearsal = check("only=[pcg]", "device=cpu")  # writes next to nothing
    assert not [item for item in rehearsal if item.startswith("free disk")]
    shutil.rmtree(big_machine / "runs/draft-llasa-8b")
    write_codes(big_machine / "data/llasa/codes")
    (more,) = (state for item, state in check("only=[pcg]").items() if item.startswith("free disk"))
    assert "of 40 GiB" in disk
    assert "of 170 GiB" in more  # two states of the draft's training and one being written
    shutil.rmtree(big_machine / "data/llasa")
    (most,) = (state for item, state in check("only=[pcg]").items() if item.startswith("free disk"))
    assert "of 3200 GiB" in most  # the corpus that the codes are made of


def test_what_is_made_of_a_corpus_asks_for_it_until_it_is_made(
    big_machine: Path, check: Rows
) -> None:
    """Preflight once sent to a training whose codes and corpus it had not looked for."""
    codes, corpus = "data/cosyvoice2/codes", "data/LibriTTS, training"
    write_everything(big_machine)
    assert not {codes, corpus} & check().keys()
    shutil.rmtree(big_machine / DRAFT)
    found = check()
    assert "sst-prepare corpus=libritts path=data/LibriTTS" in found[codes]
    assert found[corpus].startswith("missing: train-clean-100")
    assert list(found).index(corpus) < list(found).index(codes) < list(found).index(DRAFT)
    write_codes(big_machine / codes)
    assert not {codes, corpus} & {item for item, state in check().items() if "miss" in state}
    assert corpus not in check()


def test_one_paper_asks_for_its_own_things(big_machine: Path, check: Rows) -> None:
    write_everything(big_machine)
    shutil.rmtree(big_machine / "models/Llasa-8B")
    assert "whisper" in check("only=[ssd]")
    assert "whisper" not in check("only=[ssd]", "scoring=false")
    assert main(["paper", "probe=false", "only=[ssd]"]) == 0
    assert main(["paper", "probe=false", "only=[ssd,pcg]"]) == 1
