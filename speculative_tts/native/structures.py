"""Write the fields of C structures."""

from ctypes import c_void_p
from typing import Any


def pointers(names: str) -> list[tuple[str, Any]]:
    """Return pointers of these names, which have spaces between them."""
    return numbers(c_void_p, names)


def numbers(kind: Any, names: str) -> list[tuple[str, Any]]:
    """Return fields of one type of `ctypes`."""
    return [(name, kind) for name in names.split()]
