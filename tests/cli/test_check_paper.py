"""sst-check paper: what the papers lack here, and that nothing is missing when all is here."""

import shutil
from pathlib import Path

import pytest
import torch

from speculative_tts.checks import paper
from speculative_tts.checks.table import Finding
from speculative_tts.commands.check import main
from speculative_tts.models import cosyvoice
from speculative_tts.models.cosyvoice_export import write_checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"
COSYVOICE, LLASA = GOLDEN / "cosyvoice2/small", GOLDEN / "llasa/model_3b_style"
DRAFT = "runs/draft-cosyvoice2"


def write_draft(folder: Path) -> None:
    """A draft of CosyVoice as the exporter leaves it."""
    whole = cosyvoice.read_checkpoint(COSYVOICE)
    kept = {name: t for name, t in whole.state.items() if ".layers." not in name}
    layer = {n: t for n, t in whole.state.items() if n.startswith("model.layers.0.")}
    write_checkpoint(folder, COSYVOICE, kept | layer, [0])


def write_everything(root: Path) -> None:
    """All that the papers' runs read, below `root`, as small as it can be."""
    models = root / "models"
    cosy = models / "CosyVoice2-0.5B"
    shutil.copytree(COSYVOICE, cosy)
    (cosy / "speech_tokenizer_v2.onnx").write_bytes(b"onnx")
    shutil.copytree(LLASA, models / "Llasa-8B")
    shutil.copytree(LLASA, models / "xcodec2-hf")
    for name in ("valle", "uslm"):
        (models / name).mkdir()
        (models / name / "config.json").write_text("{}")
    (models / "speechtokenizer_hubert_avg").mkdir()
    for name in ("config.json", "SpeechTokenizer.pt"):
        (models / "speechtokenizer_hubert_avg" / name).write_bytes(b"{}")
    write_draft(root / DRAFT)
    shutil.copytree(LLASA, root / "runs/draft-llasa-8b")
    for name in ("unicats_b", "test_clean_500", "test_clean"):
        (root / "data" / name).mkdir(parents=True)
        (root / "data" / name / "list.jsonl").write_text("{}\n")


@pytest.fixture
def big_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory on a machine with all judges, a large disk and a large GPU."""
    monkeypatch.chdir(tmp_path)
    heard = [Finding(name, f"judges={name}", True, "runs here") for name in ("ssd", "pcg", "mtp")]
    monkeypatch.setattr(paper, "judges", lambda _: heard)
    usage = shutil.disk_usage(tmp_path)._replace(free=10_000 * 2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(paper, "_gpu", lambda: Finding("GPU memory", "all", True, "80 of 24 GiB"))
    return tmp_path


def rows(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The table's lines by their first word."""
    return {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}


def test_nothing_is_missing_where_all_is(
    big_machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_everything(big_machine)
    code = main(["paper", "probe=false"])
    out = capsys.readouterr().out
    assert (code, "missing" in out) == (0, False), out


def test_what_is_missing_has_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert main(["paper", "models=m", "probe=false"]) == 1
    found = rows(capsys)
    assert "iic/CosyVoice2-0.5B --local_dir m/CosyVoice2-0.5B" in found["m/CosyVoice2-0.5B"]
    assert "hf download HKUSTAudio/Llasa-8B" in found["m/Llasa-8B"]
    assert "sst-train-draft recipe=cosyvoice2" in found[DRAFT]
    assert "sst-prepare corpus=list" in found["data/unicats_b/list.jsonl"]
    assert " GiB" in found["free"]
    assert torch.cuda.is_available() or "no GPU" in found["GPU"]


def test_a_cut_off_draft_is_none(big_machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_draft(big_machine / DRAFT)
    main(["paper", "probe=false"])
    assert rows(capsys)[DRAFT].split()[1:] == ["SSD", "here"]
    (big_machine / DRAFT / "llm.pt").unlink()  # what is written last
    main(["paper", "probe=false"])
    assert "missing" in rows(capsys)[DRAFT]
