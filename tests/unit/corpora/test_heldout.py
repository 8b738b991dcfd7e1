from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq

from speculative_tts_makers.corpora import heldout, take_codes


def test_rows_are_what_drafts_read(tmp_path, monkeypatch):
    cut = SimpleNamespace(start=1.2, word_ends=(3.4, 9.8))
    monkeypatch.setattr(heldout, "speak_as", lambda *_: (cut, np.zeros(160)))
    codec = SimpleNamespace(encode=lambda _: np.arange(8), token_rate=25.0)
    item = SimpleNamespace(
        id="dev-x-0", speaker=SimpleNamespace(name="x"), words=("one", "two"), duration_stretch=1.0
    )
    path = tmp_path / "dev-0000.parquet"
    heldout.write_dev_codes([item], [item], codec, path, take_codes.CODES_SCHEMA)
    rows = pq.read_table(path).to_pylist()
    assert len(rows) == 2
    assert rows[0] | {"codes": list(range(8)), "word_ends": [3, 8], "split": "dev"} == rows[0]
    assert list(tmp_path.iterdir()) == [path]
