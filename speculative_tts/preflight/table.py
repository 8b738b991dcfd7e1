"""What a check of this machine finds: rows of one table."""

from collections.abc import Sequence
from dataclasses import dataclass

HEAD = ("item", "for", "state", "get it with")


@dataclass(frozen=True)
class Finding:
    """One thing that is needed, who needs it, and what makes it available when it is not."""

    item: str
    needed_by: str
    here: bool
    state: str
    remedy: str = ""


def lines(findings: Sequence[Finding]) -> list[str]:
    """The table, a finding a line, aligned; the remedy last because it is long."""
    rows = [HEAD, *((f.item, f.needed_by, f.state, f.remedy) for f in findings)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return [
        "  ".join([*(row[i].ljust(widths[i]) for i in range(3)), row[3]]).rstrip() for row in rows
    ]


def missing(findings: Sequence[Finding]) -> list[Finding]:
    """Those that are not here."""
    return [finding for finding in findings if not finding.here]
