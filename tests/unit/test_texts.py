"""Text files of others, and messages that name many things."""

from pathlib import Path

import pytest

from speculative_tts.texts import first, read_lines, some


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


def test_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes("café".encode("utf-16"))
    with pytest.raises(ValueError, match=r"list is not UTF-8 \(.*\); get it again"):
        read_lines(path, "get it again")


def test_a_message_names_five_and_counts_the_rest() -> None:
    names = [str(number) for number in range(20_000)]
    assert some(names[:5]) == "0, 1, 2, 3, 4"
    assert some(names) == "0, 1, 2, 3, 4 and 19995 more"


def test_a_list_shows_five_lines_and_counts_the_rest() -> None:
    lines = list("abcdefg")
    assert first(lines) == [*"abcde", "... and 2 more like these"]
    assert first(lines[:5]) == [*"abcde"]
