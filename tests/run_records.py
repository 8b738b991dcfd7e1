"""Records of decoded runs, as tests read them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from speculative_tts.records import read_jsonl

CLOCKS = {
    *("lm_seconds", "baseline_seconds", "baseline_tokens", "split", "nar_seconds"),
    *("prefill_seconds", "baseline_prefill_seconds", "codec_seconds"),
}


def records(out: Path, name: str = "*") -> list[dict[str, Any]]:
    """Return the rows of the one run in a folder whose name matches."""
    (path,) = out.glob(f"{name}/records.jsonl")
    return list(read_jsonl(path))


def untimed(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without what clocks measured."""
    return [{key: row[key] for key in row if key not in CLOCKS} for row in rows]
