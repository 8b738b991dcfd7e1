"""Record the settings that a folder was made with, and refuse pieces of other settings."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from speculative_tts.typed import write_json


def require_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings to `path` if it is new; raise ValueError if it has other ones."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, dict(settings))
        return
    recorded = json.loads(path.read_text(encoding="utf-8"))
    other = [key for key in settings if recorded.get(key) != settings[key]]
    if other:
        raise ValueError(
            f"{path.parent} was made with {other[0]}={recorded.get(other[0])}, now "
            f"{settings[other[0]]}; give another out=<folder>, or delete that one"
        )
