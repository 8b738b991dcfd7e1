"""Format the findings of a machine check as a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from speculative_tts.texts import aligned

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
    return aligned([HEAD, *((f.item, f.needed_by, f.state, f.remedy) for f in findings)])


def missing(findings: Sequence[CheckedItem]) -> list[CheckedItem]:
    """Return the findings that are missing here."""
    return [finding for finding in findings if not finding.here]
