"""Mark keys whose values are taken as written: paths and words, with commas and quotes.

The mark is in the field's type: `path: ReadPath`. Command lines, the writer of files and checks
follow it.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any

from speculative_tts.schema.fields import Given, given, key_types, said


class Holds(Enum):
    """The content of a key."""

    words = "words"
    read = "read"  # a file or folder that is read and never changed
    written = "written"  # a file or folder that is written
    kept = "kept"  # a folder that is read and written: runs, caches


PATHS = (Holds.read, Holds.written, Holds.kept)
Words = Annotated[str, Holds.words]
ReadPath = Annotated[str, Holds.read]
WrittenPath = Annotated[str, Holds.written]
KeptPath = Annotated[str, Holds.kept]


def verbatim_keys(schema: type[Any]) -> set[str]:
    """Return every verbatim dotted key of a schema, those of its kinds too."""
    return {key for key, hint in key_types(schema).items() if said(hint, Holds)}


def given_paths(config: Any, *holds: Holds) -> Iterator[Given]:
    """Yield every path of a configuration object that is set, or those that hold one of `holds`."""
    for one in given(config):
        if one.value is not None and said(one.hint, Holds) in (holds or PATHS):
            yield one
