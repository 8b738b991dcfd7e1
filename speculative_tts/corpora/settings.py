"""What a folder was made with: it takes no pieces of other settings."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from speculative_tts.records import write_json


def same_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Note them in `path` beside what is made; ValueError where others are noted."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, dict(settings))
        return
    there = json.loads(path.read_text(encoding="utf-8"))
    other = [key for key in settings if there.get(key) != settings[key]]
    if other:
        raise ValueError(
            f"{path.parent} was made with {other[0]}={there.get(other[0])}, now "
            f"{settings[other[0]]}; give another out=<folder>, or delete that one"
        )
