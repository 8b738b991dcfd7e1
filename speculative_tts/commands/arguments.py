"""Bring a command line into the form that Hydra reads."""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from speculative_tts.schema.fields import is_verbatim

EXPERIMENTS = re.compile(r"experiment=[\w/-]+(,[\w/-]+)+")
HYDRAS = ("null", "???")  # values that are Hydra's words even where words are verbatim
HYDRA_FLAGS = ("cfg", "package", "resolve", "info", "hydra_help", "shell_completion")  # print only


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; settings are written key=value, and --help lists them")


def parse(argv: Sequence[str]) -> Namespace:
    """Parse a command line; its settings may stand on both sides of a flag.

    Of the result, `help` is None or the group that --help=<group> names, `flags` are those that are
    left to Hydra, and `folder` is --config-dir as Hydra reads it. ValueError for an unknown flag.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("settings", nargs="*")
    for flag in ("--version", "--resolve", "--hydra-help"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--shell-completion", "-sc", action="store_true")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("--package", "-p")
    parser.add_argument("--cfg", "-c", choices=("job", "hydra", "all"))
    infos = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
    parser.add_argument("--info", "-i", nargs="?", const="all", choices=infos)
    topics = [word for word in argv if word.partition("=")[0] in ("--help", "-h")]
    given = parser.parse_intermixed_args([word for word in argv if word not in topics])
    given.help = topics[-1].partition("=")[2] if topics else None
    if given.resolve and not given.cfg:
        parser.error("--resolve goes with --cfg")
    asked = {name: vars(given)[name] for name in HYDRA_FLAGS if vars(given)[name]}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in asked.items()]
    given.flags = [word.removesuffix("=True") for word in words]
    given.folder = [f"--config-dir={at_home(given.config_dir)}"] if given.config_dir else []
    return given


def check_words(settings: Sequence[str], known: Sequence[str]) -> None:
    """Raise ValueError for a bare word that is none of `known`, which stand for a setting."""
    if lost := [word for word in settings if word.isalpha() and word not in known]:
        there = f"it is none of {', '.join(known)}" if known else "--help lists them"
        raise ValueError(f"cannot read '{lost[0]}'; settings are written key=value, and {there}")


def one_by_one(argv: Sequence[str]) -> list[list[str]]:
    """Split `experiment=a,b` into a command line each, since each experiment has its own sweep."""
    for place, word in enumerate(argv):
        if EXPERIMENTS.fullmatch(word):
            names = word.partition("=")[2].split(",")
            return [[*argv[:place], f"experiment={name}", *argv[place + 1 :]] for name in names]
    return [[*argv]]


def quoted(argument: str, schema: type[Any]) -> str:
    """Quote the value of a setting that holds a path or words, so that its commas stay text.

    A value in quotes is left to Hydra: "'a','b'" sweeps.
    """
    key, equals, value = argument.partition("=")
    if not equals or value in HYDRAS or not is_verbatim(key.lstrip("+"), schema):
        return argument
    if len(value) > 1 and value[0] in "'\"" and value[0] == value[-1]:
        return argument
    return f"{key}={quote(value)}"


def quote(text: str) -> str:
    """Quote text for Hydra's grammar, in which ${ would interpolate."""
    text = text.replace("${", "\\${")  # a backslash counts only before a quote
    text = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), text)
    return f"'{text}'"


def at_home(path: str) -> str:
    """Return a path whose ~ is a real place: shells expand it only at a word's start."""
    return str(Path(path).expanduser()) if path == "~" or path.startswith("~/") else path
