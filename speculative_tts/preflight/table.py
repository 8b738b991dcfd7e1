"""Format the findings of a machine check as a table."""

from collections.abc import Sequence
from dataclasses import dataclass

HEAD = ("item", "for", "state", "get it with")


@dataclass(frozen=True)
class CheckedItem:
    """One needed thing, who needs it, and the command that gets it if it is missing."""

    item: str
    needed_by: str
    here: bool
    state: str
    remedy: str = ""


def lines(findings: Sequence[CheckedItem]) -> list[str]:
    """Format a finding per line, aligned; the remedy comes last because it is long."""
    rows = [HEAD, *((f.item, f.needed_by, f.state, f.remedy) for f in findings)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return [
        "  ".join([*(row[i].ljust(widths[i]) for i in range(3)), row[3]]).rstrip() for row in rows
    ]


def missing(findings: Sequence[CheckedItem]) -> list[CheckedItem]:
    """Return the findings that are missing here."""
    return [finding for finding in findings if not finding.here]
