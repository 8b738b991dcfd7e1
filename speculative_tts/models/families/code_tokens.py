"""Rows of codes in a vocabulary, found by the names of their tokens, and the frames of codes."""

from pathlib import Path

import torch
from torch import Tensor

from speculative_tts.models.slots import Slots
from speculative_tts.schema.common import RowsConfig

# Tokens by which a vocabulary is known whose speech is no stream of codes, and why.
MIXED = {
    ("<|c1_0|>", "<|word_start|>"): "OuteTTS 1.0",
    ("<|0|>", "<|text_sep|>", "<|audio_start|>"): "OuteTTS 0.1 to 0.3",
}


def refuse_mixed(vocabulary: dict[str, int], folder: Path) -> None:
    """Raise ValueError for a family that speaks words and durations between its codes."""
    for tokens, name in MIXED.items():
        if all(token in vocabulary for token in tokens):
            raise ValueError(
                f"{folder} is {name}, which says each word, its length and features between the "
                "codes: no position tells what may stand there, so that it is not decoded here; "
                "give a target whose speech is codes alone"
            )


def find_codes(
    vocabulary: dict[str, int], config: RowsConfig, folder: Path
) -> tuple[Tensor, Slots | None]:
    """Return the row of each code, int64 [codes], and the frames the codes come in.

    Raises ValueError when names do not fit the patterns, or codes the frames.
    """
    if config.offset is not None:
        if config.count is None or config.more:
            raise ValueError(
                "rows.offset is the row of code 0, of codes without names; give their number too, "
                "target.rows.count, and leave rows.more out"
            )
        books = [torch.arange(config.offset, config.offset + config.count)]
    else:
        books = _named_books(vocabulary, config, folder)
    codes = torch.cat(books)
    if config.more:
        if config.slots != 1:
            raise ValueError(
                f"rows.slots {config.slots} and rows.more are both given; each pattern of "
                "rows.more is a slot by itself: leave rows.slots out"
            )
        return codes, Slots(tuple(map(len, books)), config.end_in_frame)
    if config.slots == 1:
        return codes, None
    size, rest = divmod(len(codes), config.slots)
    if rest:
        raise ValueError(
            f"{folder} has {len(codes)} codes, which rows.slots={config.slots} does not divide; "
            "give the number of codes with target.rows.count"
        )
    return codes, Slots((size,) * config.slots, config.end_in_frame)


def _named_books(vocabulary: dict[str, int], config: RowsConfig, folder: Path) -> list[Tensor]:
    """Return the rows of each pattern's codes; ValueError where two share a row."""
    books = [
        code_rows(vocabulary, pattern, folder, config.first, config.count)
        for pattern in (config.code, *config.more)
    ]
    codes = torch.cat(books)
    if len(set(codes.tolist())) < len(codes):
        raise ValueError(f"two codes of {folder} have one row; copy its tokenizer again")
    return books


def code_rows(
    vocabulary: dict[str, int], pattern: str, folder: Path, first: int = 0, count: int | None = None
) -> Tensor:
    """Return the row of each code 0, 1, ...: int64 [codes].

    The token of code 0 has the number `first`; there are `count` codes, or as many as follow
    without a gap of all that are there. Raises ValueError when names do not fit the pattern.
    """
    if "{}" not in pattern:
        raise ValueError(f"rows.code {pattern!r} has no {{}} for the number; such as '<|s_{{}}|>'")
    numbered = {number_in(token, pattern): row for token, row in vocabulary.items()}
    found = {number: row for number, row in numbered.items() if number is not None}
    if not found:
        example = max(vocabulary, key=lambda token: vocabulary[token])
        raise ValueError(
            f"no token of {folder} looks like {pattern}; its last token is {example}: "
            "set target.rows.code"
        )
    last = max(found) if count is None else first + count - 1
    wanted = range(first, last + 1)
    missing = next((number for number in wanted if number not in found), None)
    if missing is not None or not wanted:
        raise ValueError(
            f"{folder} has {len(found)} tokens like {pattern} but none for code "
            f"{first if missing is None else missing}; codes count from rows.first={first} "
            "without gaps"
        )
    rows = [found[number] for number in wanted]
    if len(set(rows)) < len(rows):
        raise ValueError(f"two codes of {folder} have one row; copy its tokenizer again")
    return torch.tensor(rows)


def number_in(token: str, pattern: str) -> int | None:
    """Return the number in a code's token; None for another token."""
    before, _, after = pattern.partition("{}")
    number = token.removeprefix(before).removesuffix(after)
    plain = number.isdecimal() and token == f"{before}{int(number)}{after}"
    return int(number) if plain else None
