"""wandb in its offline mode: what a training, a decoding and its scoring leave to be sent."""

import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_models import write_fake_models
from small_target import save_codes, save_target

from speculative_tts.commands import decode, train_heads
from speculative_tts.commands import eval as score
from speculative_tts.records import read_jsonl
from speculative_tts.typed import read_json

wandb = pytest.importorskip("wandb")
proto = pytest.importorskip("wandb.proto.wandb_internal_pb2")
pytestmark = pytest.mark.whole  # its service is a process that is started and ended
BLOCK, HEAD = 32768, 7  # of the log that wandb writes; its file begins with as many bytes


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    wandb.teardown()  # the environment is read when the service starts


def stored(path: Path) -> Iterator[Any]:
    """Records of a .wandb file; one may go over several blocks."""
    data, at, whole = path.read_bytes(), HEAD, b""
    while at + HEAD <= len(data):
        if (left := BLOCK - at % BLOCK) < HEAD:
            at += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + HEAD : at + HEAD + size]
        at += HEAD + size
        if kind in (1, 4):  # whole, or the last part
            record = proto.Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


def sent(folder: Path) -> list[Path]:
    """What the runs of a folder left, oldest first."""
    wandb.teardown()  # until then its service may not have written all
    return sorted(folder.glob("wandb/offline-run-*/run-*.wandb"), key=lambda p: p.parent.name)


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a run's history, without wandb's own columns."""
    found = []
    for record in stored(path):
        if record.WhichOneof("record_type") == "history":
            items = {
                i.key or i.nested_key[0]: json.loads(i.value_json) for i in record.history.item
            }
            found.append({key: value for key, value in items.items() if key[0] != "_"})
    return found


def summary(path: Path) -> dict[str, Any]:
    """What is known of a run at its end."""
    return _own(item for record in stored(path) for item in record.summary.update)


def _own(items: Iterable[Any]) -> dict[str, Any]:
    named = ((item.key or item.nested_key[0], item.value_json) for item in items)
    return {key: json.loads(value) for key, value in named if key[0] != "_"}


def test_a_training_sends_its_journal(tmp_path: Path) -> None:
    save_target(tmp_path / "target")
    save_codes(tmp_path / "codes")
    where = [f"target.path={tmp_path / 'target'}", f"codes={tmp_path / 'codes'}"]
    numbers = "n=2 steps=4 batch_size=8 sequences=8 eval_every=2 dev_utterances=2 wandb=true"
    for _ in range(2):  # the second time it is complete: nothing more to send
        assert train_heads.main([*where, f"out={tmp_path / 'heads'}", *numbers.split()]) == 0
    (path,) = sent(tmp_path)
    expected: dict[int, dict[str, Any]] = {}
    for row in read_jsonl(tmp_path / "heads/training/metrics.jsonl"):
        expected.setdefault(row["step"], {}).update(row)
    assert rows(path) == list(expected.values())


def test_scores_join_what_was_decoded(tmp_path: Path) -> None:
    models = write_fake_models(tmp_path / "models", utterances=10)
    common = [*models.overrides, f"out={tmp_path / 'runs'}", "instrument=0", "runtime.warmup=0"]
    assert decode.main([*common, "method=target"]) == 0
    assert not sent(tmp_path)
    assert decode.main([*common, "method=target", "wandb=true"]) == 0  # the same run: skipped
    assert not sent(tmp_path)
    assert decode.main([*common, "method=exact", "wandb=true"]) == 0
    (decoded,) = sent(tmp_path)
    (run,) = (tmp_path / "runs").glob("speculative-*")
    figures = summary(decoded)
    assert figures["acceptance_length"] >= 1
    assert figures["lm_rtf"] > 0
    assert not {"wer", "acceptance_length_low"} & set(figures)
    options = ["metrics=[wer]", "workers=1", "draws=50", "wandb=true"]
    assert score.main([f"runs={run}", *options]) == 0
    both = sent(tmp_path)
    assert len(both) == 2
    assert both[0].name == both[1].name  # one run of wandb's: the folder's
    metrics = read_json(run / "summary.json")["metrics"]
    scored = summary(both[1])
    assert scored["wer"] == pytest.approx(metrics["wer"]["value"])
    assert scored["wer_high"] == pytest.approx(metrics["wer"]["high"])
    assert scored["acceptance_length"] == pytest.approx(figures["acceptance_length"])
