"""Print the functions that a rule's setting passes through while one utterance is decoded.

A function counts if an argument is the setting's number, holds it, or holds what holds it: a
configuration object, a node of OmegaConf, a rule. A move is a call from one such file to another.
Run it with settings of sst-decode, one of which has the number 0.41:

    python scripts/setting_way.py rule.beta=0.41 limit=1 runtime.kernels=torch out=/tmp/way
"""

import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, MethodType
from typing import Any

from speculative_tts.commands import decode

SETTING = 0.41
DEEP = 2  # a holder, and what holds it
OWN = f"{Path(decode.__file__).parents[1]}/"
OBJECTS = ("speculative_tts", "omegaconf")  # packages whose objects are looked into


def parts(of: Any) -> Iterable[Any]:
    """Return what an object holds; nothing of text, numbers and arrays."""
    if isinstance(of, Mapping) and type(of) is dict:
        return of.values()
    if isinstance(of, list | tuple):
        return of[:200]
    if isinstance(of, partial):
        return (*of.args, *of.keywords.values())
    if isinstance(of, MethodType):
        return (of.__self__,)
    if isinstance(of, type) or not type(of).__module__.startswith(OBJECTS):
        return ()
    own = getattr(of, "__dict__", {})
    inside = own.get("_content")  # a node of OmegaConf, whose children are its values
    return parts(inside) if inside is not None else own.values()


def holds(given: Any, depth: int = DEEP) -> bool:
    """Return True for the setting's number, and for what holds it within `depth` steps."""
    value = getattr(given, "__dict__", {}).get("_val", given)  # of a value's node
    if type(value) is float:
        return value == SETTING
    return depth > 0 and any(holds(one, depth - 1) for one in parts(given))


class Way:
    """A profiler that notes which functions of the package are given the setting, and by whom."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, str], CodeType] = {}
        self.calls: set[tuple[str, str]] = set()
        self._looks = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Look at the arguments of a function of the package that is called."""
        code = frame.f_code
        own = event == "call" and code.co_filename.startswith(OWN)
        if self._looks or not own or code.co_name.startswith("<"):
            return
        self._looks = True
        number = code.co_argcount + code.co_kwonlyargcount + (code.co_flags >> 2 & 1)
        names = code.co_varnames[:number]
        if any(holds(frame.f_locals.get(name)) for name in names):
            here = code.co_filename.removeprefix(OWN)
            self.functions.setdefault((here, code.co_qualname), code)
            back = frame.f_back
            while back is not None and not back.f_code.co_filename.startswith(OWN):
                back = back.f_back
            if back is not None:
                self.calls.add((back.f_code.co_filename.removeprefix(OWN), here))
        self._looks = False


def main(*settings: str) -> None:
    """Decode with these settings, and print the way by file."""
    way = Way()
    sys.setprofile(way)
    try:
        decode.main([*settings])
    finally:
        sys.setprofile(None)
    files = list(dict.fromkeys(file for file, _ in way.functions))
    for file in files:
        own = (name for where, name in way.functions if where == file)
        print(f"{file}: {', '.join(own)}")
    moves = [(a, b) for a, b in way.calls if a != b and a in files]
    print(f"{len(files)} files, {len(moves)} moves, {len(way.functions)} functions")


if __name__ == "__main__":
    main(*sys.argv[1:])
