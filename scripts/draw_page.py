"""Draw the figures and the page of results/ again from the tables and points that ship there.

    python scripts/draw_page.py                # `make page`, and `make results` ends with it
    python scripts/draw_page.py runs/results   # of another folder that sst-report wrote

Tables are read from their Markdown, points from their CSV; the audio is that of the page before.
"""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from shipped import figure, shipped_section

from speculative_tts.files import write_atomic
from speculative_tts.reporting.definitions import Report
from speculative_tts.reporting.examples import Heard
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.figures import draw
from speculative_tts.reporting.page import page, read_sections
from speculative_tts.reporting.shown import REPORTS

SHIPPED = Path(__file__).resolve().parent.parent / "results"


def report_folders(folder: Path) -> Iterator[tuple[Report, Path]]:
    """Yield every folder of a report's files, deeper ones of other states too."""
    for path in sorted(folder.rglob("runs.json")):
        names = [name for name in (path.parent.name, path.parents[1].name) if name in REPORTS]
        if names:
            yield REPORTS[names[0]](TINY), path.parent


def pictures(folder: Path) -> dict[Path, bytes]:
    """Return every figure whose points are there, by the path of its file."""
    return {
        place / f"{one.name}.{ending}": data
        for report, place in report_folders(folder)
        for one in report.figures
        if (place / f"{one.name}.csv").is_file()
        for ending, data in draw(figure(place, one)).items()
    }


def shipped_page(folder: Path) -> str:
    """Return the page of a folder; a section whose files are gone stays as it was."""
    before = folder / "index.html"
    heard = read_sections(before)
    sections = [
        shipped_section(report(TINY), folder / name, heard.get(name, asdict(Heard())))
        for name, report in REPORTS.items()
        if (folder / name).is_dir()
    ]
    return page(sections, before)


def main() -> None:
    """Rewrite what lies in a folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED
    drawn = pictures(folder)
    for path, data in drawn.items():
        write_atomic(path, data)
    write_atomic(folder / "index.html", shipped_page(folder))
    print(f"{folder}: {len(drawn)} pictures and index.html drawn")


if __name__ == "__main__":
    main()
