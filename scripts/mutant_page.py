"""tests/mutants.md: how many mutants of each file there are, and which survive."""

import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from mutant_files import (
    DEVICE,
    MESSAGE,
    REFUSED,
    SECONDS,
    SURVIVED,
    UNREACHED,
    File,
    Reason,
    files,
    reasons,
)
from scipy.stats import binomtest

from speculative_tts.provenance import code_version, hardware

PAGE = Path("tests/mutants.md").absolute()
HEAD = """# Mutation testing

`make mutants` makes this page (`scripts/mutants.py`, mutmut {mutmut}). A mutant is a fault of one
place: another operator, number, constant or argument; functions with a decorator have none.
*Refused* are those that mypy finds, which `make check` runs; *messages* change nothing but what an
error, a warning or a bar of progress says, or that a zip is strict, *devices* nothing but where a
tensor is made that a CPU cannot see. The others are *tried* with at most {seconds:.0f} seconds of
the quick tests that reach their function, the most direct first. *Left* have not been tried:
`make mutants` goes on with them, in a drawn order.

Made at commit {commit} on {day} ({cpu}).

Killed: **{killed} of {real} ({rate:.1f} %)** that are not equivalent; equivalent: {equal} of
{tried} tried ({share:.1f} %). The interval is that of 95 % (Clopper and Pearson) for what would be
killed of all of a file in part.

{parts}
"""
WHOLE, PART = "tried whole", "tried in part"
TABLE = (
    "made",
    "refused",
    "messages",
    "devices",
    "left",
    "tried",
    "killed",
    "equivalent",
    "survived",
)


def kinds(file: File, listed: dict[str, Reason]) -> dict[str, list[str]]:
    """A file's mutants by what became of them; survivors as changes."""
    found: dict[str, list[str]] = {kind: [] for kind in TABLE}
    names = {REFUSED: "refused", MESSAGE: "messages", DEVICE: "devices", None: "left"}
    for mutant, code in file.results.items():
        kind, text = names.get(code, "killed"), mutant
        if code in (SURVIVED, UNREACHED):
            text = file.change(mutant)[0]
            equivalent = text in listed and listed[text].equivalent
            kind = "equivalent" if equivalent else "survived"
        found[kind].append(text)
    for kind in ("killed", "equivalent", "survived"):
        found["tried"] += found[kind]
    found["made"] = list(file.results)
    return found


def page() -> int:
    """Write the page; 1 if a survivor has no reason, or a reason no survivor."""
    listed, table, said, faults = reasons(), [], [], []
    total, parts = Counter[str](), {name: Counter[str]() for name in (WHOLE, PART)}
    for file in files():
        found, known = kinds(file, listed[file.name]), listed.pop(file.name)
        counts = {kind: len(found[kind]) for kind in TABLE}
        total.update(counts)
        parts[PART if counts["left"] else WHOLE].update(counts)
        if counts["made"]:
            table.append(f"| `{file.name}` | " + " | ".join(map(str, counts.values())) + " |")
        alive = found["equivalent"] + found["survived"]
        stale = known.keys() - {*alive, *(file.change(mutant)[0] for mutant in found["left"])}
        faults += [f"{file.name}: no such survivor: {text}" for text in stale]
        faults += [f"{file.name}: no reason for: {text}" for text in alive if text not in known]
        by_reason: dict[Reason, list[str]] = defaultdict(list)
        for text in alive:
            by_reason[known.get(text, Reason("not explained", equivalent=False))].append(text)
        said += [f"\n### `{file.name}`\n"] if alive else []
        for reason, texts in by_reason.items():
            said.append(f"- {'Equivalent' if reason.equivalent else 'Survived'}: {reason.why}")
            said += [f"  - `{text}`" for text in texts]
    faults += [f"{name}: no such file" for name in listed]
    head = ["file", *TABLE]
    table = [
        "| " + " | ".join(head) + " |",
        "|---" + "|---:" * len(TABLE) + "|",
        *table,
        "| all | " + " | ".join(str(total[kind]) for kind in TABLE) + " |",
    ]
    lines = [_head(total, parts), *table, "\n## What survives, and why", *said]
    PAGE.write_text("\n".join(lines) + "\n")
    print(*faults, sep="\n", file=sys.stderr)
    return int(bool(faults))


def _head(total: Counter[str], parts: dict[str, Counter[str]]) -> str:
    rows = [
        "| files | to try | tried | killed, not equivalent | of all |",
        "|---|---:|---:|---:|---:|",
    ]
    rows += [_row(name, counts) for name, counts in parts.items() if counts["tried"]]
    return HEAD.format(
        mutmut=version("mutmut"),
        commit=code_version()["commit"][:7],
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        cpu=hardware()["cpu"],
        seconds=SECONDS,
        killed=total["killed"],
        real=_real(total),
        rate=100 * total["killed"] / _real(total),
        equal=total["equivalent"],
        tried=total["tried"],
        share=100 * total["equivalent"] / total["tried"],
        parts="\n".join(rows),
    )


def _row(name: str, counts: Counter[str]) -> str:
    killed, real, tried = counts["killed"], _real(counts), counts["tried"]
    every = tried + counts["left"]
    interval = binomtest(killed, real).proportion_ci()
    low, high = 100 * interval.low, 100 * interval.high
    found = [f"{every}", f"{tried} ({100 * tried / every:.0f} %)"]
    found += [f"{killed} of {real} ({100 * killed / real:.1f} %)"]
    found += [f"[{low:.1f}, {high:.1f}] %" if counts["left"] else "-"]
    return f"| {name} | " + " | ".join(found) + " |"


def _real(counts: Counter[str]) -> int:
    """Those tried that are faults."""
    return counts["tried"] - counts["equivalent"]
