"""Codes of real clips, read by lhotse, with the tiny codec as the tokenizer."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from libritts_clips import FOLDER, PROMPTS, TARGETS, lay_out, texts

from speculative_tts import assets
from speculative_tts.codecs.audio import UnfitWaveError
from speculative_tts.codecs.registry import load_codec
from speculative_tts.commands import prepare as command
from speculative_tts.corpora import extract, libritts, utterance
from speculative_tts.corpora.extract import Extraction
from speculative_tts.corpora.utterance import Utterance

CLIPS = sorted(TARGETS + PROMPTS)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("lhotse", reason="extra corpora")
    return lay_out(tmp_path_factory.mktemp("corpus"))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [
        row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()
    ]


def utterances(split: str = "train") -> list[Utterance]:
    said = texts()
    return [Utterance(key, key[:4], split, said[key], str(FOLDER / f"{key}.flac")) for key in CLIPS]


def how(**changes: Any) -> Extraction:
    values: dict[str, Any] = {
        "codec": "tiny",
        "codec_path": assets.resolve("tiny:codec"),
        "shard_size": 2,
        "what": {"corpus": "clips"},
    }
    return Extraction(**values | changes)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer that needs no analysis: level of every 40 ms."""

    class Level:
        sample_rate = 16_000
        token_rate = 25.0
        n_codes = 4096

        def encode(self, wave: Any) -> Any:
            frames = wave[: len(wave) // 640 * 640].reshape(-1, 640)
            return (abs(frames).mean(1) * 4095).astype("int64")

    extract.codec_at.cache_clear()
    monkeypatch.setattr(extract, "load_codec", lambda name, path: Level())


def test_libritts_to_codes(corpus: Path, tmp_path: Path) -> None:
    arguments = ["corpus=libritts", f"path={corpus}", "parts=[test-clean]", "workers=1"]
    assert command.main([*arguments, f"out={tmp_path}"]) == 0
    rows = rows_of(tmp_path / "codes")
    assert [row["id"] for row in rows] == CLIPS
    assert [row["text"] for row in rows] == [texts()[key] for key in CLIPS]
    assert {(row["speaker"], row["split"]) for row in rows} == {("8230", "test"), ("4077", "test")}
    assert rows[-1]["seconds"] == pytest.approx(5.61, abs=0.05)
    assert (tmp_path / "codes" / "test-00000.parquet").is_file()


def test_manifests_of_a_killed_job_are_made_again(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they are made is no one else's: half a file there once counted as a whole."""
    recipes = utterance.lhotse("recipes.libritts")
    prepare = recipes.prepare_libritts

    def killed(root: Path, dataset_parts: list[str], output_dir: Path, **_: Any) -> Any:
        for kind in ("recordings", "supervisions"):
            Path(output_dir, f"libritts_{kind}_test-clean.jsonl.gz").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(recipes, "prepare_libritts", killed)
    with pytest.raises(KeyboardInterrupt):
        list(libritts.utterances(libritts.find_root(str(corpus)), ["test-clean"], tmp_path, 1))
    monkeypatch.setattr(recipes, "prepare_libritts", prepare)
    for _ in range(2):
        found = libritts.utterances(libritts.find_root(str(corpus)), ["test-clean"], tmp_path, 1)
        assert [one.id for one in found] == CLIPS
    assert len(list(tmp_path.glob("*.jsonl.gz"))) == 2


def test_jobs_at_the_same_time_share_one_set_of_manifests(corpus: Path, tmp_path: Path) -> None:
    """Each once wrote into the files that the other was reading."""
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(
                lambda: list(
                    libritts.utterances(
                        libritts.find_root(str(corpus)), ["test-clean"], tmp_path, 1
                    )
                )
            )
            for _ in range(4)
        ]
    assert [[one.id for one in job.result()] for job in jobs] == [CLIPS] * 4


def test_a_part_that_is_not_there(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["corpus=libritts", f"path={corpus}", f"out={tmp_path}", "workers=1"]) == 2
    assert "has no train-clean-100; it has test-clean" in capsys.readouterr().err


def test_libriheavy_cuts_are_stretches_of_recordings(corpus: Path, tmp_path: Path) -> None:
    cut = {
        "id": "small/100/book/chapter_0",
        "start": 1.0,
        "duration": 2.0,
        "channel": 0,
        "type": "MonoCut",
        "supervisions": [
            {
                "id": "s",
                "recording_id": "r",
                "start": 0.0,
                "duration": 2.0,
                "speaker": "100",
                "custom": {"texts": ["Cased text.", "CASED TEXT"]},
            }
        ],
        "recording": {
            "id": "r",
            "sources": [{"type": "file", "channels": [0], "source": f"{TARGETS[0]}.flac"}],
            "sampling_rate": 24_000,
            "num_samples": 134_640,
            "duration": 5.61,
        },
    }
    with gzip.open(tmp_path / "libriheavy_cuts_small.jsonl.gz", "wt") as file:
        file.write(json.dumps(cut) + "\n")
    arguments = ["corpus=libriheavy", f"path={tmp_path}", "parts=[small]", "workers=1"]
    assert command.main([*arguments, f"audio={FOLDER}", f"out={tmp_path / 'out'}"]) == 0
    (row,) = rows_of(tmp_path / "out/codes")
    assert (row["id"], row["text"]) == ("small_100_book_chapter_0", "Cased text.")
    assert (len(row["codes"]), row["split"]) == (50, "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no gzip", "is no manifest of cuts"),
        (gzip.compress(b'{"id": ', mtime=0), "is no manifest of cuts"),
        (gzip.compress(b'{"id": "a"}\n', mtime=0), "is no manifest of cuts"),
        (None, "not found; get it with: hf"),
    ],
)
def test_an_odd_libriheavy_manifest_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "libriheavy_cuts_small.jsonl.gz").write_bytes(content)
    arguments = ["corpus=libriheavy", f"path={tmp_path}", "parts=[small]", "workers=1"]
    assert command.main([*arguments, f"out={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert f"libriheavy_cuts_small.jsonl.gz {message}" in error
    assert error.count("\n") == 1


def test_a_killed_run_makes_only_what_is_missing(tmp_path: Path) -> None:
    extract.extract(utterances(), how(), tmp_path)
    whole = [path.read_bytes() for path in sorted(tmp_path.glob("*.parquet"))]
    kept = (tmp_path / "train-00000.parquet").stat().st_mtime_ns
    (tmp_path / "train-00001.parquet").unlink()
    extract.extract(utterances(), how(), tmp_path)
    assert [path.read_bytes() for path in sorted(tmp_path.glob("*.parquet"))] == whole
    assert (tmp_path / "train-00000.parquet").stat().st_mtime_ns == kept


def test_jobs_share_the_shards(tmp_path: Path) -> None:
    extract.extract(utterances(), how(job=1, jobs=2), tmp_path)
    assert [path.name for path in tmp_path.glob("*.parquet")] == ["train-00001.parquet"]
    extract.extract(utterances(), how(job=0, jobs=2), tmp_path)
    assert len(rows_of(tmp_path)) == 4


def test_a_folder_of_other_settings_is_refused(tmp_path: Path) -> None:
    extract.extract(utterances(), how(), tmp_path)
    with pytest.raises(ValueError, match=r"was made with shard_size=2, now 3; give another out="):
        extract.extract(utterances(), how(shard_size=3), tmp_path)


def test_missing_audio_is_refused_or_left_out(tmp_path: Path) -> None:
    gone = Utterance("gone", "1", "train", "text", str(tmp_path / "gone.wav"))
    with pytest.raises(ValueError, match="audio of gone and 0 more of train-00002 is missing"):
        extract.extract([*utterances(), gone], how(), tmp_path / "a")
    dropped = extract.extract([*utterances(), gone], how(allow_missing=True), tmp_path / "b")
    assert dropped.missing == ["gone"]
    assert len(rows_of(tmp_path / "b")) == 4


def test_a_clip_the_codec_cannot_encode_is_left_out_and_said(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    level = extract.load_codec("tiny", Path())

    class Short:
        sample_rate, token_rate, n_codes = level.sample_rate, level.token_rate, level.n_codes

        def encode(self, wave: Any) -> Any:
            if len(wave) > 5.6 * self.sample_rate:
                raise UnfitWaveError("5.61 s of speech is above 5.6 s; cut it")
            return level.encode(wave)

    monkeypatch.setattr(extract, "load_codec", lambda name, path: Short())
    arguments = ["corpus=libritts", f"path={corpus}", "parts=[test-clean]", "workers=1"]
    assert command.main([*arguments, f"out={tmp_path}"]) == 0
    said = capsys.readouterr().out
    assert f"1 that the codec cannot encode, such as {CLIPS[-1]}: 5.61 s" in said
    assert [row["id"] for row in rows_of(tmp_path / "codes")] == CLIPS[:-1]


def test_what_was_left_out_before_a_kill_is_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once said only what the last of the runs left out."""
    level = extract.load_codec("tiny", Path())

    class Unfit:
        sample_rate, token_rate, n_codes = level.sample_rate, level.token_rate, level.n_codes

        def encode(self, wave: Any) -> Any:
            raise UnfitWaveError("too long")

    gone = Utterance("gone", "1", "train", "text", str(tmp_path / "gone.wav"))
    said = [gone, *utterances()]
    monkeypatch.setattr(extract, "load_codec", lambda name, path: Unfit())
    first = extract.extract(said[:2], how(allow_missing=True), tmp_path / "codes")
    extract.codec_at.cache_clear()
    monkeypatch.setattr(extract, "load_codec", lambda name, path: level)
    for job in (0, 1):
        resumed = extract.extract(
            said, how(allow_missing=True, job=job, jobs=2), tmp_path / "codes"
        )
        assert resumed == first
    assert first.missing == ["gone"]
    assert first.unfit == {CLIPS[0]: "too long"}
    assert [row["id"] for row in rows_of(tmp_path / "codes")] == CLIPS[1:]


def test_row_is_the_codecs_own() -> None:
    """The shipped codec's codes of a real clip are what the store holds."""
    codec = load_codec("tiny", assets.resolve("tiny:codec"))
    one = utterances()[0]
    (row,) = extract.encode_rows([one], codec, extract.Dropped())
    assert isinstance(row["codes"], list)
    assert 0 <= min(row["codes"]) <= max(row["codes"]) < codec.n_codes
    assert row["seconds"] == pytest.approx(len(row["codes"]) / 25.0)


def test_a_codec_that_can_encodes_several_at_once() -> None:
    class Together:
        """Codes are lengths."""

        sample_rate, token_rate, n_codes, n_layers = 16_000, 50.0, 9, 1

        def __init__(self) -> None:
            self.calls: list[int] = []

        def encode_many(self, waves: list[np.ndarray]) -> list[np.ndarray]:
            self.calls.append(len(waves))
            return [np.full(3, index) for index, _ in enumerate(waves)]

    codec = Together()
    rows = extract.encode_rows(utterances()[:3], codec, extract.Dropped())  # type: ignore[arg-type]
    assert codec.calls == [3]
    assert [row["codes"] for row in rows] == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
