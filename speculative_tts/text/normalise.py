"""English text as words and marks: numbers, money, dates, times, abbreviations and signs in words.

Numbers become words by `inflect`; what they stand for (a year, an amount, a time) is decided here.
Accents are folded. Letters of other scripts and symbols that have no words are an error that names
them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_MONTH = "|".join(f"{month}|{month[:3]}" for month in MONTHS)
ABBREVIATIONS = {
    **{"mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor"},
    **{"st": "saint", "jr": "junior", "sr": "senior", "vs": "versus", "etc": "et cetera"},
    **{"capt": "captain", "col": "colonel", "gen": "general", "sgt": "sergeant", "lt": "lieutenant"},
    **{"rev": "reverend", "hon": "honorable", "gov": "governor", "sen": "senator"},
    **{"ave": "avenue", "blvd": "boulevard", "rd": "road", "mt": "mount", "ft": "feet"},
    **{"dept": "department", "approx": "approximately", "inc": "incorporated", "co": "company"},
    **{"ltd": "limited", "corp": "corporation"},
}
NUMBERED = {"no": "number", "nos": "numbers", "fig": "figure", "vol": "volume", "pp": "pages", "p": "page", "ch": "chapter"}
LATIN = {"e.g.": "for example", "i.e.": "that is", "a.m.": "A M", "p.m.": "P M", "u.s.": "U S", "ph.d.": "P H D"}
UNITS = {
    **{"km": "kilometers", "cm": "centimeters", "mm": "millimeters", "kg": "kilograms", "mg": "milligrams"},
    **{"lb": "pounds", "lbs": "pounds", "oz": "ounces", "mph": "miles per hour", "hz": "hertz"},
    **{"khz": "kilohertz", "mhz": "megahertz", "ghz": "gigahertz", "kb": "kilobytes", "mb": "megabytes"},
    **{"gb": "gigabytes", "tb": "terabytes", "ms": "milliseconds", "min": "minutes", "am": "A M", "pm": "P M"},
}
CURRENCIES = {"$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent"), "¥": ("yen", "sen")}
SIGNS = {"&": " and ", "%": " percent ", "@": " at ", "+": " plus ", "=": " equals ", "°": " degrees ", "#": " number ", "/": " slash ", "*": " ", "_": " ", "~": " about ", "^": " "}
QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "…": "...", "—": ", ", "–": " - ", "\u00a0": " "})
LIGATURES = {"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "ð": "d", "þ": "th"}


def normalise(text: str) -> str:
    """Return the text in letters, apostrophes, spaces and the marks , . ? ! alone.

    Raises ValueError for an empty text and for characters that cannot be spoken.
    """
    text = _folded(text.translate(QUOTES))
    for pattern, words in _rules():
        text = pattern.sub(words, text)
    for sign, words in SIGNS.items():
        text = text.replace(sign, words)
    text = re.sub(r"[;:()\[\]{}\"|<>\\]|\s-+\s|--+", ",", text)
    text = re.sub(r"(?<=\w)-(?=\w)|`|(?<!\w)'|'(?!\w)|-", " ", text)
    if strange := re.sub(r"[A-Za-z' ,.?!\s]", "", text):
        raise ValueError(f"the text has {_named(strange)}, which cannot be spoken; give English text")
    text = re.sub(r"\s+", " ", re.sub(r"\s*([,.?!])[,.\s]*", r"\1 ", text)).strip().lstrip(",.?! ").rstrip(", ")
    if not re.search(r"[A-Za-z]", text):
        raise ValueError("the text is empty; give something to say")
    return text


def _folded(text: str) -> str:
    """Latin letters without their accents."""
    for letter, plain in LIGATURES.items():
        text = text.replace(letter, plain)
    apart = unicodedata.normalize("NFKD", text)
    return "".join(c for c in apart if not unicodedata.combining(c))


def _named(characters: str) -> str:
    """The first of some characters, as an error names it."""
    first = characters[0]
    return f"{first!r} ({unicodedata.name(first, 'unnamed').lower()})"


@cache
def _inflect() -> Any:
    import inflect

    return inflect.engine()


def number_words(digits: str) -> str:
    """Return a number in words: 1,234.5 as one thousand two hundred thirty four point five."""
    whole, _, fraction = digits.replace(",", "").partition(".")
    if len(whole) > 1 and whole[0] == "0" or len(whole) > 15:  # a code, not a quantity
        said = " ".join(_count(digit) for digit in whole)
    else:
        said = _count(whole or "0")
    return said + (" point " + " ".join(_count(digit) for digit in fraction) if fraction else "")


def _count(digits: str) -> str:
    words = str(_inflect().number_to_words(int(digits), andword="", comma=""))
    return re.sub(r"\s+", " ", words.replace("-", " "))


def ordinal_words(number: int) -> str:
    """Return third for 3."""
    words = str(_inflect().number_to_words(_inflect().ordinal(number), andword="", comma=""))
    return re.sub(r"\s+", " ", words.replace("-", " "))


def year_words(year: int) -> str:
    """Return nineteen ninety eight for 1998, two thousand five for 2005."""
    high, low = divmod(year, 100)
    if 2000 <= year < 2010 or low == 0 and high % 10 == 0:
        return _count(str(year))
    if low == 0:
        return f"{_count(str(high))} hundred"
    return f"{_count(str(high))} {'oh ' if low < 10 else ''}{_count(str(low))}"


def _money(found: re.Match[str]) -> str:
    sign, amount, scale = found["sign"], found["amount"].replace(",", ""), found["scale"]
    unit, part = CURRENCIES[sign]
    if scale:
        return f" {number_words(amount)} {scale} {_plural(unit, 2)} "
    whole, _, cents = amount.partition(".")
    said = f"{number_words(whole)} {_plural(unit, int(whole))}"
    if cents and int(cents):
        hundredths = int(cents.ljust(2, "0")[:2])
        more = f"{_count(str(hundredths))} {_plural(part, hundredths)}"
        said = more if int(whole) == 0 else f"{said} and {more}"
    return f" {said} "


def _plural(unit: str, count: int) -> str:
    return unit if count == 1 or unit in ("yen", "sen") else {"penny": "pence"}.get(unit, f"{unit}s")


def _month(name: str) -> str:
    return next(month for month in MONTHS if month.startswith(name.lower()[:3]))


def _date(found: re.Match[str]) -> str:
    groups = found.groupdict()
    day, year = ordinal_words(int(groups["day"])), groups.get("year")
    month, rest = _month(groups["month"]), f", {year_words(int(year))}" if year else ""
    return f" the {day} of {month}{rest} " if groups.get("the") else f" {month} {day}{rest} "


def _time(found: re.Match[str]) -> str:
    hour, minute = _count(found["hour"]), int(found["minute"])
    if minute == 0:
        rest = "" if found["half"] else " o'clock"
    else:
        rest = f" {'oh ' if minute < 10 else ''}{_count(str(minute))}"
    half = f" {' '.join(found['half'].replace('.', '').upper())}" if found["half"] else ""
    return f" {hour}{rest}{half} "


def _abbreviation(found: re.Match[str]) -> str:
    word = found[1]
    return ABBREVIATIONS[word.lower()] + " "


def _letters(found: re.Match[str]) -> str:
    """U.N. as the letters U N."""
    return " ".join(found[0].replace(".", "")) + " "


@cache
def _rules() -> tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]:
    """Patterns and what they become, in the order in which they are tried."""
    number = r"\d[\d,]*\d|\d"
    every = re.IGNORECASE
    titles = "|".join(sorted(ABBREVIATIONS, key=len, reverse=True))
    units = "|".join(sorted(UNITS, key=len, reverse=True))
    rules: list[tuple[str, int, Callable[[re.Match[str]], str]]] = [
        (r"https?://|www\.", every, lambda m: " "),
        (r"(?<=\w)\.(?=(com|org|net|edu|gov|io|uk)\b)", every, lambda m: " dot "),
        ("|".join(re.escape(word) for word in LATIN), every, lambda m: f" {LATIN[m[0].lower()]} "),
        (rf"\b({titles})\.(?=\s|$)(?!\s*$)", every, _abbreviation),
        (rf"\b({'|'.join(NUMBERED)})\.\s?(?=\d)", every, lambda m: f"{NUMBERED[m[1].lower()]} "),
        (r"\b(?:[A-Z]\.){2,}", 0, _letters),
        (
            rf"(?P<sign>[$£€¥])\s?(?P<amount>(?:{number})(?:\.\d+)?)(?:\s(?P<scale>thousand|million|billion|trillion)\b)?",
            every,
            _money,
        ),
        (
            rf"\b(?P<the>the\s+)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month>{_MONTH})\b\.?(?:,?\s+(?P<year>[12]\d{{3}})\b)?",
            every,
            _date,
        ),
        (
            rf"\b(?P<month>{_MONTH})\b\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<year>[12]\d{{3}})\b)?",
            every,
            _date,
        ),
        (
            r"\b(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?:\s?(?P<half>[ap]\.?m\b\.?))?",
            every,
            _time,
        ),
        (rf"\b({number})(st|nd|rd|th)\b", every, lambda m: ordinal_words(int(m[1].replace(",", "")))),
        (r"\b([12]\d\d)0s\b", 0, lambda m: _decade(int(m[1] + "0"))),
        (rf"(?<=\d)\s?({units})\b", every, lambda m: f" {UNITS[m[1].lower()]}"),
        (r"(?<=\d)\s?-\s?(?=\d)", 0, lambda m: " to "),
        (r"(?<![\w.])-(?=\d)", 0, lambda m: " minus "),
        (r"\b1/2\b", 0, lambda m: " one half "),
        (r"\b(1[1-9]\d\d|20\d\d)\b(?![.,]?\d)", 0, lambda m: f" {year_words(int(m[1]))} "),
        (rf"(?:{number})(?:\.\d+)?", 0, lambda m: f" {number_words(m[0])} "),
    ]
    return tuple((re.compile(pattern, flags), words) for pattern, flags, words in rules)


def _decade(year: int) -> str:
    """Return nineteen nineties for 1990."""
    words = year_words(year)
    return (words[:-1] + "ies" if words.endswith("y") else words + "s") + " "
