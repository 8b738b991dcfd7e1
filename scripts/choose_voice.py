"""Choose the default voice of sst-speak, and write it beside the shipped test list.

    make voices                                       # makes the table: about 5 minutes
    python scripts/choose_voice.py runs/results/tiny/voices.csv

The rule: take the voice with the fewest word errors on the dev list's strings, every voice
speaking the same strings as sst-speak speaks (configs/experiment/voices.yaml); of equals the first.
The test list is not used.
"""

import csv
import sys
from pathlib import Path

from speculative_tts.assets import TINY
from speculative_tts.typed import write_json

RULE = "fewest word errors on the dev list's strings, spoken as sst-speak speaks, by every voice"
GROUPS = ("all", "seen", "unseen")
ERRORS = "spoken_wer"
SHOWN = {"wer": "", "low": "_low", "high": "_high", "strings": "_n"}


def main(table: str, out: str = str(TINY / "testset" / "voices.json")) -> None:
    """Write the voice that a voices.csv of sst-report implies."""
    with Path(table).open(encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["key"] not in GROUPS]
    best = min(lines, key=lambda line: float(line[ERRORS]))
    figures = {name: float(best[ERRORS + end]) for name, end in SHOWN.items() if best[ERRORS + end]}
    write_json(Path(out), {"default": best["key"], "rule": RULE, **figures})
    print(f"{best['key']}: {best[ERRORS]} % word errors; written to {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
