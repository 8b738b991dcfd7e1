"""Text files of others, and messages that name many things."""

import gzip
import lzma
from pathlib import Path

import pytest

from speculative_tts.texts import first, read_lines, some
from speculative_tts.typed import read_json


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"one", ["one"]),
        (b"one\n\ntwo\n", ["one", "", "two"]),
        (b"\xef\xbb\xbfone\r\ntwo\r\n", ["one", "two"]),
        ("one\u2028two\x0b\x85\nthree".encode(), ["one\u2028two\x0b\x85", "three"]),
    ],
)
def test_a_line_ends_at_its_end_alone(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    """`str.splitlines` cut a row at U+2028, and the mark at a file's start became part of an id."""
    path = tmp_path / "list"
    path.write_bytes(content)
    assert read_lines(path, "get it again") == lines


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("café".encode("utf-16"), "UTF-16, to be saved as UTF-8"),
        ("café".encode("latin-1"), "'utf-8' codec can't decode byte 0xe9 .*"),
        (gzip.compress(b"text", mtime=0), "compressed by gzip, to be unpacked"),
        (lzma.compress(b"text"), "compressed by xz, to be unpacked"),
        (b"PK\x03\x04\x14\0\0\0\xff", "a zip archive, to be unpacked"),
    ],
)
def test_another_encoding_is_named(tmp_path: Path, content: bytes, kind: str) -> None:
    """Of a packed list the remedy was to get it again."""
    path = tmp_path / "list"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"list is not UTF-8 \({kind}\); get it again"):
        read_lines(path, "get it again")
    with pytest.raises(ValueError, match=rf"list is not a JSON object \(not UTF-8 \({kind}\)\);"):
        read_json(path)


def test_a_message_names_five_and_counts_the_rest() -> None:
    names = [str(number) for number in range(20_000)]
    assert some(names[:5]) == "0, 1, 2, 3, 4"
    assert some(names) == "0, 1, 2, 3, 4 and 19995 more"


def test_a_list_shows_five_lines_and_counts_the_rest() -> None:
    lines = list("abcdefg")
    assert first(lines) == [*"abcde", "... and 2 more like these"]
    assert first(lines[:5]) == [*"abcde"]
