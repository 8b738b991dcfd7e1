"""English text as words and marks: numbers, money, dates, times, abbreviations and signs in words.

Numbers become words by `inflect`; what they stand for (a year, an amount, a time) is decided here,
what signs and shortenings are said as in assets/english/words.yaml. Accents are folded. Letters of
other scripts and symbols that have no words are an error that names them.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

import yaml

from speculative_tts.text.lexicon import FOLDER

Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]


@cache
def tables() -> dict[str, Any]:
    """Tables of what is said for what."""
    return dict(yaml.safe_load((FOLDER / "words.yaml").read_text(encoding="utf-8")))


def normalise(text: str) -> str:
    """Return the text in letters, apostrophes, spaces and the marks , . ? ! alone.

    Raises ValueError for an empty text and for characters that cannot be spoken.
    """
    text = folded(text)
    for pattern, words in _rules():
        text = pattern.sub(words, text)
    for sign, said in tables()["signs"].items():
        text = text.replace(sign, f" {said} ")
    text = re.sub(r"[;:()\[\]{}\"|<>\\]|\s-+\s|--+", ",", text)
    text = re.sub(r"(?<=\w)-(?=\w)|`|(?<!\w)'|'(?!\w)|-", " ", text)
    if strange := re.sub(r"[A-Za-z' ,.?!\s]", "", text):
        name = unicodedata.name(strange[0], "unnamed").lower()
        raise ValueError(
            f"the text has {strange[0]!r} ({name}), which cannot be spoken; give English text"
        )
    text = re.sub(r"\s+", " ", re.sub(r"\s*([,.?!])[,.\s]*", r"\1 ", text))
    text = text.strip().lstrip(",.?! ").rstrip(", ")
    if not re.search(r"[A-Za-z]", text):
        raise ValueError("the text is empty; give something to say")
    return text


def folded(text: str) -> str:
    """Return Latin letters without their accents, quotes and dashes as a typewriter has them."""
    text = text.translate(str.maketrans(tables()["quotes"] | tables()["ligatures"]))
    apart = unicodedata.normalize("NFKD", text)
    return "".join(c for c in apart if not unicodedata.combining(c))


@cache
def _inflect() -> Any:
    """Load the library of number words; ValueError where it is not installed."""
    try:
        import inflect
    except ModuleNotFoundError as error:
        raise ValueError(
            "numbers in a text need the package inflect; pip install it, or write words"
        ) from error
    return inflect.engine()


def _counted(number: str) -> str:
    words = str(_inflect().number_to_words(number, andword="", comma=""))
    return re.sub(r"\s+", " ", words.replace("-", " "))


def number_words(digits: str) -> str:
    """Return a number in words: 1,234.5 as one thousand two hundred thirty four point five."""
    whole, _, fraction = digits.replace(",", "").partition(".")
    is_code = (len(whole) > 1 and whole[0] == "0") or len(whole) > 15
    said = " ".join(map(_counted, whole)) if is_code else _counted(whole or "0")
    return said + (f" point {' '.join(map(_counted, fraction))}" if fraction else "")


def ordinal_words(number: int) -> str:
    """Return third for 3."""
    return _counted(_inflect().ordinal(number))


def year_words(year: int) -> str:
    """Return nineteen ninety eight for 1998, two thousand five for 2005."""
    high, low = divmod(year, 100)
    if 2000 <= year < 2010 or (low == 0 and high % 10 == 0):
        return _counted(str(year))
    if low == 0:
        return f"{_counted(str(high))} hundred"
    return f"{_counted(str(high))} {'oh ' if low < 10 else ''}{_counted(str(low))}"


def _money(found: re.Match[str]) -> str:
    one, many, part, parts = tables()["currencies"][found["sign"]]
    amount = found["amount"].replace(",", "")
    if found["scale"]:
        return f" {number_words(amount)} {found['scale']} {many} "
    whole, _, rest = amount.partition(".")
    hundredths = int(rest.ljust(2, "0")[:2] or 0)
    said = [f"{number_words(whole)} {one if int(whole) == 1 else many}"]
    if hundredths:
        more = f"{_counted(str(hundredths))} {part if hundredths == 1 else parts}"
        said = [*said, more] if int(whole) else [more]
    return f" {' and '.join(said)} "


def _date(found: re.Match[str]) -> str:
    parts = found.groupdict()
    month = next(m for m in tables()["months"] if m.startswith(parts["month"].lower()[:3]))
    day, year = ordinal_words(int(parts["day"])), parts["year"]
    rest = f", {year_words(int(year))}" if year else ""
    return f" the {day} of {month}{rest} " if parts.get("the") else f" {month} {day}{rest} "


def _time(found: re.Match[str]) -> str:
    minute, half = int(found["minute"]), found["half"]
    said = [_counted(found["hour"])]
    if minute:
        said += [*(["oh"] if minute < 10 else []), _counted(str(minute))]
    elif not half:
        said += ["o'clock"]
    return f" {' '.join([*said, *(half or '').replace('.', '').upper()])} "


def _decade(found: re.Match[str]) -> str:
    """Return nineteen nineties for 1990s."""
    words = year_words(int(found[1]))
    return f"{words[:-1]}ies " if words.endswith("y") else f"{words}s "


def _saying(words: str) -> Callable[[re.Match[str]], str]:
    """Return what says the same for all that is found."""
    return lambda _: f" {words} "


def _by(table: str) -> Callable[[re.Match[str]], str]:
    """Return what looks the first group up."""
    return lambda found: f"{tables()[table][found[1].lower()]} "


def _any_of(table: str) -> str:
    return "|".join(re.escape(word) for word in sorted(tables()[table], key=len, reverse=True))


@cache
def _rules() -> tuple[Rule, ...]:
    """Patterns and what they become, in the order in which they are tried."""
    number, year = r"(?:\d[\d,]*\d|\d)", r"(?P<year>[12]\d{3})\b"
    month = rf"(?P<month>{'|'.join(f'{m}|{m[:3]}' for m in tables()['months'])})\b\.?"
    day = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
    amount = rf"(?P<amount>{number}(?:\.\d+)?)"
    scale = r"(?:\s(?P<scale>thousand|million|billion|trillion)\b)?"
    signs = "".join(tables()["currencies"])
    rules: list[tuple[str, Callable[[re.Match[str]], str]]] = [
        (r"(?i)https?://|www\.", _saying("")),
        (r"(?i)(?<=\w)\.(?=(com|org|net|edu|gov|io|uk)\b)", _saying("dot")),
        (rf"(?i)(?<!\w)({_any_of('latin')})", _by("latin")),
        (rf"(?i)\b({_any_of('abbreviations')})\.(?=\s|$)(?!\s*$)", _by("abbreviations")),
        (rf"(?i)\b({_any_of('numbered')})\.\s?(?=\d)", _by("numbered")),
        (r"\b(?:[A-Z]\.){2,}", lambda found: f"{' '.join(found[0].replace('.', ''))} "),
        (rf"(?i)(?P<sign>[{signs}])\s?{amount}{scale}", _money),
        (rf"(?i)\b(?P<the>the\s+)?{day}\s+(?:of\s+)?{month}(?:,?\s+{year})?", _date),
        (rf"(?i)\b{month}\s+{day}\b(?:,?\s+{year})?", _date),
        (r"(?i)\b(?P<hour>\d{1,2}):(?P<minute>[0-5]\d)(?:\s?(?P<half>[ap]\.?m\b\.?))?", _time),
        (
            rf"(?i)\b({number})(?:st|nd|rd|th)\b",
            lambda m: ordinal_words(int(m[1].replace(",", ""))),
        ),
        (r"\b([12]\d\d0)s\b", _decade),
        (rf"(?i)(?<=\d)\s?({_any_of('units')})\b", lambda m: f" {tables()['units'][m[1].lower()]}"),
        (r"(?<=\d)\s?-\s?(?=\d)", _saying("to")),
        (r"(?<![\w.])-(?=\d)", _saying("minus")),
        (r"\b1/2\b", _saying("one half")),
        (r"\b(1[1-9]\d\d|20\d\d)\b(?![.,]?\d)", lambda found: f" {year_words(int(found[1]))} "),
        (rf"{number}(?:\.\d+)?", lambda found: f" {number_words(found[0])} "),
    ]
    return tuple((re.compile(pattern), words) for pattern, words in rules)
