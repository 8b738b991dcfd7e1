"""Cache measurements on disk by audio file (sha256), judge id, version and options.

Each judge has one growing JSONL file: a killed run loses at most the utterance it was at, and
tables are made again without measuring again. Changed audio, or a changed judge, is measured anew.
"""

from pathlib import Path

from speculative_tts.evaluation.judge import Judge, Measurement, describe, signature
from speculative_tts.records import Appender, read_jsonl, to_row
from speculative_tts.typed import typed


class MeasurementCache:
    """Measurements of all judges in one folder; `close` it, or use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._values: dict[str, dict[str, Measurement]] = {}
        self._files: dict[str, Appender] = {}

    def get(self, judge: Judge) -> dict[str, Measurement]:
        """Return a judge's measurements by audio hash; the first call reads them from disk."""
        key = signature(judge)
        if key not in self._values:
            self._files[key] = self._open(key, judge)
            path = self._path(key)
            rows = (row for row in read_jsonl(path) if "sha256" in row)
            self._values[key] = {row["sha256"]: typed(Measurement, row, path) for row in rows}
        return self._values[key]

    def put(self, judge: Judge, sha256: str, measurement: Measurement) -> None:
        """Store one measurement, which then survives a kill."""
        self.get(judge)[sha256] = measurement
        self._files[signature(judge)].append({"sha256": sha256} | to_row(measurement))

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._values.clear()

    def __enter__(self) -> "MeasurementCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.jsonl"

    def _open(self, key: str, judge: Judge) -> Appender:
        path = self._path(key)
        new = not path.exists()
        file = Appender(path)  # drops a torn last line
        if new:
            file.append({"judge": describe(judge)})
        return file
