"""What stands on a command line, brought into the form that Hydra reads; and the paths it names."""

import re
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speculative_tts.assets import MissingPathError, resolve
from speculative_tts.schema.verbatim import Holds, given_paths, verbatim_keys

EXPERIMENTS = re.compile(r"experiment=[\w/-]+(,[\w/-]+)+")
HYDRAS = ("null", "???")  # values that are Hydra's words even where words are verbatim


def apart(argv: Sequence[str], parser: ArgumentParser) -> tuple[list[str], list[str]]:
    """Flags, each joined to its value, and settings, which may stand on both sides of a flag."""
    actions = {name: action for action in parser._actions for name in action.option_strings}
    flags, settings, rest = [], [], [*argv]
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            settings.append(word)
            continue
        action = actions.get(word)
        if rest and action is not None and (action.nargs is None or rest[0] in _choices(action)):
            word = f"{action.option_strings[0]}={_at_home(rest.pop(0))}"
        flags.append(word)
    return flags, settings


def check_words(settings: Sequence[str], known: Sequence[str]) -> None:
    """ValueError for a word alone that is none of `known`, which stand for a setting."""
    if lost := [word for word in settings if word.isalpha() and word not in known]:
        there = f"it is none of {', '.join(known)}" if known else "--help lists them"
        raise ValueError(f"cannot read '{lost[0]}'; settings are written key=value, and {there}")


def one_by_one(argv: Sequence[str]) -> list[list[str]]:
    """The command line of each of `experiment=a,b`; as it is where it names one or none.

    An experiment has a sweep of its own, which Hydra would take of one alone.
    """
    for place, word in enumerate(argv):
        if EXPERIMENTS.fullmatch(word):
            names = word.partition("=")[2].split(",")
            return [[*argv[:place], f"experiment={name}", *argv[place + 1 :]] for name in names]
    return [[*argv]]


def quoted(argument: str, schema: type[Any]) -> str:
    """A setting that is a path or words, quoted for Hydra: commas and apostrophes stay text.

    What is quoted already is left to Hydra: "'a','b'" sweeps.
    """
    key, equals, value = argument.partition("=")
    if not equals or key.lstrip("+") not in verbatim_keys(schema) or value in HYDRAS:
        return argument
    if len(value) > 1 and value[0] in "'\"" and value[0] == value[-1]:
        return argument
    # In Hydra's quotes a backslash counts only before a quote; ${ would interpolate.
    text = value.replace("${", "\\${")
    text = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), text)
    return f"{key}='{text}'"


def find_places(config: object) -> None:
    """Give every path of a configuration its real place; none may be empty.

    Of what is read `tiny:target` is a shipped file. A shell knows ~ at the start of a word only.
    """
    for one in given_paths(config):
        if not one.value:
            raise ValueError(f"{one.key} is empty; give a path")
        setattr(one.config, one.name, _at_home(one.value))
    for one in given_paths(config, Holds.read):
        setattr(one.config, one.name, str(resolve(one.value)))


def sources(config: object) -> list[Path]:
    """What a configuration reads; ValueError when it would also be written."""
    read = [one for one in given_paths(config, Holds.read) if Path(one.value).exists()]
    for out in given_paths(config, Holds.written):
        for one in read if Path(out.value).exists() else ():
            if Path(one.value).samefile(out.value):
                raise ValueError(
                    f"{out.key}={out.value} is what {one.key} reads; give another {out.key}"
                )
    return [Path(one.value) for one in read]


def name_key(error: Exception, config: object) -> None:
    """Tell of a path that is not there which key of the configuration gave it."""
    if isinstance(error, MissingPathError):
        keys = [one.key for one in given_paths(config, Holds.read) if one.value == str(error.path)]
        error.args = (": ".join([*keys[:1], str(error)]),)


def _at_home(path: str) -> str:
    return str(Path(path).expanduser()) if path == "~" or path.startswith("~/") else path


def _choices(action: Any) -> Sequence[str]:
    return action.choices or () if action.nargs == "?" else ()
