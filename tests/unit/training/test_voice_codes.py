"""Global codes of voices in a codes store: read where all shards have them, and said in prompts."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from speculative_tts.commands import decode
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.training.data.columns import Columns, StoredUtterance
from speculative_tts.training.data.pairs import write_rows

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
