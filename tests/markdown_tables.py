"""Tables of a report's pages, as tests read them."""

import re


def blocks(text: str) -> list[dict[str, list[str]]]:
    """Each Markdown table: cells by heading."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines()]
        columns = zip(*lines, strict=True)
        found.append({head.strip(): [c.strip() for c in cells] for head, _, *cells in columns})
    return found
