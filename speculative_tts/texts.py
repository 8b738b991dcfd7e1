"""Text files of others, and messages that name many things.

Text is UTF-8, perhaps with a byte order mark. A line ends at LF or CR LF alone: U+2028 and the
other separators at which `str.splitlines` cuts are part of what a line says.
"""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

OTHERS = {
    b"\x1f\x8b": "compressed by gzip, to be unpacked",
    b"\xfd7zXZ": "compressed by xz, to be unpacked",
    b"PK\x03\x04": "a zip archive, to be unpacked",
    b"\xff\xfe": "UTF-16, to be saved as UTF-8",
    b"\xfe\xff": "UTF-16, to be saved as UTF-8",
}
"""What files begin with that are no text in UTF-8, and what to do with them."""
NAMED = 5  # things that a message names before it counts the rest


def utf8(data: bytes) -> str:
    """Decode UTF-8, perhaps after a byte order mark; ValueError says what else the bytes are."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        kind = next((kind for head, kind in OTHERS.items() if data.startswith(head)), str(error))
        raise ValueError(f"not UTF-8 ({kind})") from error


def read_text(path: Path, remedy: str) -> str:
    """Return the text of a file. ValueError with file, reason and remedy if it is not UTF-8."""
    try:
        return utf8(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is {error}; {remedy}") from error


def read_lines(path: Path, remedy: str) -> list[str]:
    """Return the lines of a text file, without their ends; ValueError as `read_text`."""
    text = read_text(path, remedy).removesuffix("\n")
    return [line.removesuffix("\r") for line in text.split("\n")] if text else []


def some(names: Collection[str], shown: int = NAMED, between: str = ", ") -> str:
    """Join names for a message: the first few, and how many more there are."""
    first = between.join(list(names)[:shown])
    return f"{first} and {len(names) - shown} more" if len(names) > shown else first


def first(lines: Collection[str], shown: int = NAMED) -> list[str]:
    """Return the first lines of a message, and one that counts the rest."""
    more = [f"... and {len(lines) - shown} more like these"] if len(lines) > shown else []
    return [*list(lines)[:shown], *more]


def with_interval(numbers: Iterable[float | None], form: str, scale: float = 1.0) -> str:
    """Format a value and, where they are known, its bounds, such as 1.20 [1.10, 1.30]."""
    value, *bounds = [format(scale * number, form) for number in numbers if number is not None]
    return f"{value} [{', '.join(bounds)}]" if bounds else value


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose columns are aligned by spaces."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
