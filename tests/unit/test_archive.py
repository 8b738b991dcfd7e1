"""Archives: the rows of many runs in one compressed file."""

import lzma
from pathlib import Path

import pytest

from speculative_tts.runs.archive import read_archive, write_archive

RUNS = {"target-s0": [{"id": "a", "text": "été", "codes": [1, 2]}, {"id": "b"}], "exact": [{}]}


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    write_archive(tmp_path / "scores.jsonl.xz", RUNS)
    assert read_archive(tmp_path / "scores.jsonl.xz") == RUNS


def test_a_line_names_its_run_before_anything_else(tmp_path: Path) -> None:
    """`xzcat scores.jsonl.xz | grep '^{"run": "target'` is all that a reader needs."""
    write_archive(tmp_path / "scores.jsonl.xz", RUNS)
    lines = lzma.decompress((tmp_path / "scores.jsonl.xz").read_bytes()).decode().splitlines()
    assert lines[:2] == [
        '{"run": "exact"}',
        '{"run": "target-s0", "id": "a", "text": "\\u00e9t\\u00e9", "codes": [1, 2]}',
    ]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'{"run": "a"}', r"a\.xz cannot be unpacked \(.*\); get the archive again"),
        (lzma.compress(b'{"run": "a"}\n{"id": 1}\n'), r"a\.xz:2: run is missing; get the archive"),
        (lzma.compress(b"[]"), r"a\.xz:1 is not a JSON object but \[\]; get the archive again"),
    ],
)
def test_what_is_no_archive_is_named(tmp_path: Path, content: bytes, fault: str) -> None:
    (tmp_path / "a.xz").write_bytes(content)
    with pytest.raises(ValueError, match=fault):
        read_archive(tmp_path / "a.xz")
