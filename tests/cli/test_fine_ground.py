"""The fine target, its codec and its draft ship and work: they are heard, and codes have groups."""

import json
from pathlib import Path
from typing import Any

import pytest
from run_records import records

from speculative_tts.assets import resolve
from speculative_tts.commands import decode, eval, precompute  # noqa: A004
from speculative_tts.records import read_jsonl

PARTS = ["target=tiny_fine", "runtime.warmup=0", "limit=6", "baseline=false", "instrument=0"]
COARSE_CODES = 2048
SHIPPED_MEGABYTES = 100


def decoded(out: Path, *options: str) -> list[dict[str, Any]]:
    """The records of a run, in the list's order."""
    assert decode.main([*PARTS, *options, "timing=0", f"out={out}"]) == 0
    return records(out)


def test_what_it_says_is_heard(tmp_path: Path) -> None:
    """Six utterances of a fixed seed; the bound leaves room. Without its text it errs on 90 %."""
    rows = decoded(tmp_path, "method=target")
    assert all(row["stop"] == "stop_id" for row in rows)
    assert max(code for row in rows for code in row["codes"]) > COARSE_CODES
    assert eval.main([f"runs={tmp_path}", "metrics=[wer]", "workers=1"]) == 0
    (path,) = tmp_path.rglob("scores.jsonl")
    scores = list(read_jsonl(path))
    errors = sum(s["substitutions"] + s["deletions"] + s["insertions"] for s in scores)
    assert errors <= 0.16 * sum(s["words"] for s in scores)


def test_its_draft_is_often_wrong(tmp_path: Path) -> None:
    """The papers' kind; one that saw another codec's codes would hardly ever be right."""
    rows = decoded(tmp_path, "method=exact", "lookahead=3")
    assert all(row["stop"] == "stop_id" for row in rows)
    accepted, drafted = (sum(row[name] for row in rows) for name in ("accepted", "drafted"))
    assert 0.15 < accepted / drafted < 0.6


@pytest.mark.whole
def test_alike_codes_make_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cosines of its embeddings order codes as their sound does; free embeddings had 0.27."""
    options = ["cache=groups", "target=tiny_fine", "groups.mean_size=4.5"]
    assert precompute.main([*options, f"groups.cache={tmp_path}"]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["mean_size"] == pytest.approx(4.5, rel=0.02)
    assert facts["likeness"]["spearman"] > 0.6


def test_what_ships_is_no_larger_than_it_may_be() -> None:
    sizes = [
        path.stat().st_size for path in resolve("tiny:target").parent.rglob("*") if path.is_file()
    ]
    assert sum(sizes) <= SHIPPED_MEGABYTES * 1e6
