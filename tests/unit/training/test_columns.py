"""Columns of a codes store: mapped from one file, made again when its shards change; voices."""

import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from speculative_tts.commands import decode
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.training.data.columns import Columns, StoredUtterance
from speculative_tts.training.data.pairs import write_rows

SPEAKERS = ("zoe", "ann", "mia")


def write(folder: Path, shards: int = 3, rows: int = 7, codes: int = 5, highest: int = 90) -> None:
    """Utterance n says its number, by speakers in turn."""
    folder.mkdir(exist_ok=True)
    for shard in range(shards):
        numbers = range(shard * rows, (shard + 1) * rows)
        table = {
            "speaker": [SPEAKERS[n % 3] for n in numbers],
            "text": [f"utterance {n}" for n in numbers],
            "codes": [[n % highest] * (codes + n % 2) for n in numbers],
        }
        pq.write_table(pa.table(table), folder / f"train-{shard:05d}.parquet")


def test_speakers_lie_together_in_order_of_name_and_shard(tmp_path: Path) -> None:
    write(tmp_path)
    columns = Columns.open([tmp_path], "train", 100)
    said = [int(columns[n].text.split()[1]) for n in range(len(columns))]
    assert said == [n for speaker in (1, 2, 0) for n in range(21) if n % 3 == speaker]
    assert columns.starts.tolist() == [0, 7, 14, 21]
    assert [columns.speaker(n) for n in (0, 6, 7, 20)] == [0, 0, 1, 2]
    assert all(columns[n].codes == [said[n]] * (5 + said[n] % 2) for n in range(21))


def test_a_process_holds_no_corpus(tmp_path: Path) -> None:
    """400,000 codes; as Python numbers they would be megabytes."""
    write(tmp_path, rows=200, codes=666)
    Columns.open([tmp_path], "train", 100)
    tracemalloc.start()
    columns = Columns.open([tmp_path], "train", 100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(columns) == 600
    assert peak < 300_000
    assert (tmp_path / "columns/train.arrow").stat().st_size < 2.2 * 400_000  # 16 bits a code


def test_changed_shards_or_another_codebook_make_it_again(tmp_path: Path) -> None:
    write(tmp_path)
    Columns.open([tmp_path], "train", 100)
    made = tmp_path / "columns/train.arrow"
    first = made.stat().st_mtime_ns
    Columns.open([tmp_path], "train", 100)
    assert made.stat().st_mtime_ns == first
    write(tmp_path, shards=4)
    assert len(Columns.open([tmp_path], "train", 100)) == 28
    assert Columns.open([tmp_path], "train", 1 << 20)[0].codes == [1] * 6
    made.write_bytes(made.read_bytes()[:50])
    assert len(Columns.open([tmp_path], "train", 1 << 20)) == 28


def test_what_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"no train-\*\.parquet in .*sst-prepare first"):
        Columns.open([tmp_path], "train", 100)
    write(tmp_path)
    with pytest.raises(ValueError, match="has code 13, the target only 13 codes; make the codes"):
        Columns.open([tmp_path], "train", 13)
    assert not (tmp_path / "columns/train.arrow").exists()

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(ValueError, match=r"cannot be written; .* where you may write"):
        Columns.open([tmp_path], "train", 100)


def test_codes_of_more_bits_are_kept(tmp_path: Path) -> None:
    codes = np.array([0, 70_000, 65_536])
    table = pa.table({"speaker": ["a"], "text": ["t"], "codes": [codes]})
    pq.write_table(table, tmp_path / "train-0.parquet")
    assert Columns.open([tmp_path], "train", 70_001)[0].codes == codes.tolist()


def test_rows_without_codes_are_told(tmp_path: Path) -> None:
    """They ended in an AttributeError at the first of them."""
    rows = {"speaker": ["ann"] * 3, "text": ["a"] * 3, "codes": [[1, 2], None, [3]]}
    pq.write_table(pa.table(rows), tmp_path / "train-00000.parquet")
    with pytest.raises(ValueError, match=r"train-00000\.parquet has 1 rows without codes; leave"):
        Columns.open([tmp_path], "train", 100)


GOLDEN = Path(__file__).parents[2] / "golden" / "rows"
ROW = {"id": "a", "speaker": "s", "split": "train", "text": "Stay.", "codes": [3, 1]}
VOICE = list(range(32))


def store(folder: Path, *rows: dict[str, object]) -> Columns:
    for number, row in enumerate(rows):
        table = pa.Table.from_pylist([ROW | row])
        pq.write_table(table, folder / f"train-{number:04}.parquet")
    return Columns.open([folder], "train", n_codes=96)


def test_voices_are_read_where_every_shard_has_them(tmp_path: Path) -> None:
    assert store(tmp_path, {"voice_codes": VOICE})[0].voice_codes == tuple(VOICE)
    assert store(tmp_path, {"voice_codes": VOICE}, {})[0].voice_codes == ()


@pytest.mark.parametrize("prompted", [False, True])
def test_a_sequence_has_the_voice_of_its_prompt(prompted: bool) -> None:
    """Else its own, which the whole of it is said in."""
    rows = decode.main.compose(["target=spark", "target.rows.count=96"]).target.rows
    layout = RowLayout.read(GOLDEN / "spark" / "model", rows)
    said = StoredUtterance("Stay.", [3, 1], voice_codes=tuple(VOICE))
    prompt = StoredUtterance("Go.", [5], voice_codes=tuple(reversed(VOICE)))
    made = write_rows(layout, layout.end, None, prompt if prompted else None, said)
    text = layout.prompts.tokenizer.decode(made.ids)
    first = 31 if prompted else 0
    assert f"<|start_global_token|><|bicodec_global_{first}|>" in text
    codes = "".join(f"<|bicodec_semantic_{code}|>" for code in ([5, 3, 1] if prompted else [3, 1]))
    assert text.endswith(f"<|start_semantic_token|>{codes}<|im_end|>")
    learnt = made.ids[made.given :]
    assert learnt == [*layout.codes[[5, 3, 1] if prompted else [3, 1]].tolist(), layout.end]
