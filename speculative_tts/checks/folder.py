"""Say what a checkpoint folder is, which configuration it takes, and what it lacks."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from speculative_tts.assets import configuration, configurations
from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.loading import tensor_names
from speculative_tts.models.decoder.weight_files import COPY, weight_files
from speculative_tts.models.families.registry import FAMILIES, ROWS
from speculative_tts.models.families.row_layout import TOKENIZER, RowLayout
from speculative_tts.pretrained import read_tokenizer
from speculative_tts.schema.common import CheckpointConfig, RowsConfig
from speculative_tts.typed import read_json, typed

FEWEST = 16  # tokens that differ by a number alone, from which they may be codes
NUMBERED = re.compile(r"(.*?)(0|[1-9]\d*)(\D*)")
LISTED = 12  # other added tokens that are named, the last ones: those of speech came last
LLASA = "llasa_1b"  # the target that the defaults of rows are of
GUIDE = "docs/own-model.md"


@dataclass(frozen=True)
class Description:
    """Lines about a folder, the configuration to write, and what has to be found first."""

    lines: tuple[str, ...]
    written: tuple[str, ...] = ()  # of my-configs/target/mine.yaml
    missing: tuple[str, ...] = ()


def describe(folder: Path) -> Description:
    """Describe a checkpoint folder; ValueError for one that no decoder here runs."""
    if not folder.is_dir():
        raise ValueError(f"folder={folder} is no folder; give that of a checkpoint")
    own = next((one for one in FAMILIES if one is not ROWS and one.found(folder)), None)
    if own is not None:
        of = CheckpointConfig("mine", str(folder))
        own.load(of, dtype=torch.bfloat16, device=torch.device("cpu"), text_rows=False)
        line = f"{folder} is a checkpoint of the family {own.name}, and whole"
        return Description((line,), ("name: mine", f"path: {folder}"))
    config = DecoderConfig.from_folder(folder)
    kind = read_json(folder / "config.json")["model_type"]
    sizes = f"{config.layers} layers, width {config.hidden} and {config.vocab_size} rows"
    lines = [f"{folder} is a {kind} of {sizes}"]
    absent = [one for one in weight_files(folder) if not (one.is_file() and tensor_names(one))]
    missing = [f"{one.name}: copy it from the checkpoint" for one in absent]
    if not any((folder / name).is_file() for name in TOKENIZER):
        return Description(tuple(lines), (), (*missing, f"a tokenizer ({' or '.join(TOKENIZER)})"))
    vocabulary = read_tokenizer(folder, COPY).get_vocab()
    patterns = numbered(vocabulary)
    if not patterns:
        why = (
            "codes: no tokens differ by a number alone, so that this is a model of text, or its "
            "codes have no names: give rows.offset (the row of code 0) and rows.count"
        )
        return Description(tuple(lines), (), (*missing, why))
    lines += [f"  {count} tokens like {pattern}" for pattern, count in patterns.items()]
    name, rows = _known(patterns)
    if name is None:
        added = read_tokenizer(folder, COPY).added_tokens_decoder.values()
        others = [one.content for one in added if not _like(one.content, patterns)]
        missing += ["rows.end, rows.user, rows.assistant: as the model was trained"]
        lines += [f"  other added tokens: {', '.join(others[-LISTED:]) or 'none'}"]
        code = f'  code: "{next(iter(patterns))}"'
        own_rows = ("name: mine", f"path: {folder}", "rows:", code)
        return Description(tuple(lines), own_rows, tuple(missing))
    lines += [f"its codes are written as those of target={name}"]
    try:
        layout = RowLayout.read(folder, typed(RowsConfig, rows, name))
        lines += [f"{layout.n_codes} codes, the end is row {layout.end}"]
    except ValueError as error:
        missing += [str(error)]
    written = (f"defaults: [{name}, _self_]", "name: mine", f"path: {folder}")
    return Description(tuple(lines), written, tuple(missing))


def numbered(vocabulary: dict[str, int]) -> dict[str, int]:
    """Return patterns of tokens that differ by a number alone, the most frequent first."""
    matches = (NUMBERED.fullmatch(token) for token in vocabulary)
    counts = Counter(
        f"{match[1]}{{}}{match[3]}" for match in matches if match and re.search(r"[<\[|]", match[1])
    )
    return {pattern: count for pattern, count in counts.most_common() if count >= FEWEST}


def _known(patterns: dict[str, int]) -> tuple[str | None, dict[str, Any]]:
    """Return the shipped target whose codes are written so, and its rows; None where none is."""
    for pattern in patterns:
        for name in configurations("target"):
            rows = configuration(f"target/{name}").get("rows", {})
            if rows.get("code") == pattern:
                return name, rows
    if RowsConfig.code in patterns:
        return LLASA, {}
    return None, {}


def _like(token: str, patterns: dict[str, int]) -> bool:
    match = NUMBERED.fullmatch(token)
    return match is not None and f"{match[1]}{{}}{match[3]}" in patterns


def said(found: Description) -> list[str]:
    """Return what is printed of a description."""
    lines = list(found.lines)
    if found.written:
        lines += ["write my-configs/target/mine.yaml:", *(f"    {line}" for line in found.written)]
    lines += [f"missing: {one}" for one in found.missing]
    if found.missing:
        return [*lines, f"then run this again ({GUIDE} explains each key of rows)"]
    return [*lines, f"then: sst-speak --config-dir my-configs target=mine codec=... ({GUIDE})"]
