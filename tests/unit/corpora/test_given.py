"""The tiny list with codes of the features that its recordings were made of."""

import dataclasses
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from speculative_tts.assets import resolve
from speculative_tts.codecs.audio import read_wave
from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.commands import decode, prepare
from speculative_tts.records import read_jsonl, read_list, to_row, write_jsonl
from speculative_tts.schema.prepare import PrepareConfig
from speculative_tts_makers.corpora import given
from speculative_tts_makers.corpora.given import plan_rows, write_given

SHIPPED = resolve("tiny:testset/list.jsonl")


def test_the_shipped_list_is_what_is_planned() -> None:
    rows, items = plan_rows(PrepareConfig()), read_list(SHIPPED)
    assert len(rows) == 240 + 120
    assert {item.id for item in items} == {name for name in rows if name.startswith("test-")}
    assert all(" ".join(rows[item.id].words) == item.text for item in items)


def test_rows_are_what_they_were_with_codes_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[str, ...]] = []
    monkeypatch.setattr(given, "frames_as", lambda words, *_: (None, said.append(words)))
    monkeypatch.setattr(given.world, "frame_features", lambda _: np.zeros((8, 27)))
    codec: Any = SimpleNamespace(encode_features=lambda frames: np.arange(len(frames) // 4))
    items, path = read_list(SHIPPED)[:2], tmp_path / "made" / "list.jsonl"
    assert write_given(items, PrepareConfig(), codec, path) == 2
    assert [" ".join(words) for words in said] == [item.text for item in items]
    assert not Path(next(iter(read_jsonl(path)))["prompt_audio"]).is_absolute()
    for item, read in zip(items, read_list(path), strict=True):
        assert read.reference_codes == ((0, 1),)
        assert Path(read.prompt_audio).samefile(item.prompt_audio)
        assert Path(str(read.reference_audio)).samefile(str(item.reference_audio))
        places = {"prompt_audio": "", "reference_audio": "", "reference_codes": None}
        assert dataclasses.replace(read, **places) == dataclasses.replace(item, **places)
    assert "reference_codes" not in to_row(items[0])  # lists from before are what they were


@pytest.mark.parametrize("change", [{"id": "other"}, {"text": "other words"}])
def test_rows_of_another_list_are_told(
    tmp_path: Path, change: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    row = to_row(read_list(SHIPPED)[0]) | change
    write_jsonl(tmp_path / "list.jsonl", [row])
    options = [f"list_file={tmp_path / 'list.jsonl'}", f"out={tmp_path / 'made'}"]
    assert prepare.main(["corpus=features", *options]) == 2
    error = capsys.readouterr().err
    assert f"row {row['id']} is not what sst-prepare speaks with seed=1; give tiny:te" in error


def test_a_codec_of_other_features_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TinyCodec, "load", lambda _: SimpleNamespace())
    assert prepare.main(["corpus=features", f"out={tmp_path}"]) == 2
    assert "give codec=tiny, tiny_fine or tiny_residual" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
def test_flite_speaks_it_and_the_codec_decodes_it(tmp_path: Path) -> None:
    """As long as the recordings; analysis of those gives other codes here and there."""
    rows = list(read_jsonl(SHIPPED))[:2]
    for row in rows:
        row |= {key: str(SHIPPED.parent / row[key]) for key in ("prompt_audio", "reference_audio")}
    write_jsonl(tmp_path / "two.jsonl", rows)
    where = [f"list_file={tmp_path / 'two.jsonl'}", f"out={tmp_path / 'made'}"]
    assert prepare.main(["corpus=features", *where]) == 0
    path = tmp_path / "made" / "list.jsonl"
    codec = TinyCodec.load(resolve("tiny:codec_fine"))
    known = [item.reference_codes or () for item in read_list(path)]
    for item, (codes,) in zip(read_list(path), known, strict=True):
        analysed = codec.encode(read_wave(Path(str(item.reference_audio)), codec.sample_rate))
        assert len(codes) == len(analysed)
        assert 0.5 < np.mean(np.array(codes) == analysed) < 1
    run = ["method=codec", "target=tiny_fine", "data=tiny_features", f"data.path={path}"]
    assert decode.main([*run, "limit=null", "timing=0", f"out={tmp_path / 'runs'}"]) == 0
    (records,) = (tmp_path / "runs").glob("codec-*/records.jsonl")
    made = [json.loads(line)["codes"] for line in records.read_text().splitlines()]
    assert made == [list(codes) for (codes,) in known]
