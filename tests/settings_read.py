"""What of a configuration, as nested values, its run reads: `naming.settings` without objects."""

from typing import Any

from speculative_tts.schema.decode import ALWAYS, READS, System
from speculative_tts.schema.drafters import DrafterConfig
from speculative_tts.schema.kinds import kinds


def read_of(config: dict[str, Any]) -> dict[str, Any]:
    keys = {*ALWAYS, *READS[System[config["system"]]]}
    if "drafter" in keys:
        keys |= {*kinds(DrafterConfig)[config["drafter"]["name"]]().reads}
    return {key: value for key, value in config.items() if key in keys}
