"""Limits of settings: declared in types, held where a configuration becomes an object, shown."""

import math
import pkgutil
import re
import typing
from dataclasses import is_dataclass, replace
from importlib import import_module
from typing import Any

import pytest

from speculative_tts import schema
from speculative_tts.commands import decode
from speculative_tts.commands.help import help_text
from speculative_tts.schema.decode import DecodeConfig
from speculative_tts.schema.fields import HUGE, Limit, check, limit_of
from speculative_tts.schema.speak import SpeakConfig

BELOW = schema.__name__


def numbers() -> list[tuple[type[Any], str, Any]]:
    """Every number that a command can be given: schema, field, and its type."""
    names = {one.name for one in pkgutil.iter_modules(schema.__path__)}
    stages = sorted(names - {"fields", "kinds", "limits", "verbatim"})
    found = [each for one in stages for each in vars(import_module(f"{BELOW}.{one}")).values()]
    settings = (one for one in found if isinstance(one, type) and is_dataclass(one))
    kinds = [one for one in dict.fromkeys(settings) if one is not Limit]
    assert len(kinds) > 20
    hints = [(kind, typing.get_type_hints(kind, include_extras=True)) for kind in kinds]
    return [(kind, name, hint) for kind, of in hints for name, hint in of.items() if number(hint)]


def number(hint: Any) -> bool:
    return hint in (int, float) or any(number(part) for part in typing.get_args(hint))


def beyond(hint: Any) -> list[float]:
    """Values that a field of this type must refuse."""
    limit = limit_of(hint)
    assert limit.least is not None
    least = limit.least if limit.above else limit.least - 1
    return [
        least,
        math.nan,
        math.inf,
        -math.inf,
        10.0**30,
        *([limit.most + 1] if limit.most else []),
    ]


@pytest.mark.parametrize(("kind", "name", "hint"), numbers())
def test_every_number_has_limits_that_hold(kind: type[Any], name: str, hint: Any) -> None:
    """`matrix_lr=nan`, `runtime.threads=1000000`, `draws=1e8` and `n_codes=0` once went on."""
    config = kind()
    usual = getattr(config, name)
    check(config)
    for value in beyond(hint):
        setattr(config, name, [value] if isinstance(usual, list) else value)
        with pytest.raises(ValueError, match=rf"^{name} \S+ is .*; give \S+"):
            check(config)


def test_a_limit_says_what_to_give() -> None:
    assert str(Limit(1)) == "1 or more"
    assert str(Limit(1, 1024)) == "1 to 1024"
    assert str(Limit(0, above=True)) == "more than 0"
    assert str(Limit(0, 1, above=True)) == "more than 0, up to 1"
    assert str(Limit(0, 2**32 - 1)) == "0 to 4294967295"
    assert str(Limit()) == ""


def test_the_ends_of_a_limit() -> None:
    assert Limit(0, 1).fault(0) is None
    assert Limit(0, 1).fault(1) is None
    assert Limit(0, 1, above=True).fault(0) == "is not above 0"
    assert Limit(0, 1).fault(-0.1) == "is below 0"
    assert Limit(0, 1).fault(1.1) == "is above 1"
    assert Limit().fault(HUGE - 1) is None
    assert Limit().fault(HUGE) == Limit().fault(-HUGE) == "is not a finite number below 2^53"


def test_null_is_offered_where_it_is_taken() -> None:
    with pytest.raises(ValueError, match=r"limit 0 is below 1; give 1 or more, or null$"):
        check(DecodeConfig(limit=0))


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"seed": "x"}, "seed x is no number; give 0 to 4294967295"),
        ({"seed": 1.5}, "seed 1.5 is no whole number; give 0 to 4294967295"),
        ({"seed": None}, "seed is null; give 0 to 4294967295"),
        ({"text": None}, "text is null; give a text"),
        ({"text": ["a"]}, "text ['a'] is no single value; give a text"),
        ({"prompt": 5}, "prompt 5 is no text; give a text, or null"),
        ({"chunk": HUGE}, "chunk 9007199254740992 is not a finite number below 2^53; give 1 or "),
        ({"lookahead": "often"}, "lookahead often is no number; give 1 to 1000, or auto, or adapt"),
    ],
)
def test_a_caller_in_python_is_told_of_another_type(changed: dict[str, Any], line: str) -> None:
    """A seed "x" was taken, and a text None ended in an AttributeError."""
    with pytest.raises(ValueError, match=f"^{re.escape(line)}"):
        check(replace(SpeakConfig(text="one"), **changed))


def test_help_shows_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    decode.main.compose()
    text = help_text(decode.main, "all")
    assert "of torch and of the native step (1 to 1024)" in text
    assert "decoding is cut after (more than 0, up to 1000)" in text
