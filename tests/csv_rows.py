"""Rows of a report's CSV files, as tests read them."""

from pathlib import Path

from shipped import read_csv


def by_key(path: Path) -> dict[str, dict[str, str]]:
    """Return the rows of a CSV file by their keys."""
    return {row["key"]: row for row in read_csv(path)}
