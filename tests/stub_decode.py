"""A command that stands for sst-decode: it keeps what it is given and decodes nothing."""

from pathlib import Path

from speculative_tts.commands import app, choices
from speculative_tts.schema.decode import DecodeConfig

seen: list[DecodeConfig] = []


def run(config: DecodeConfig) -> int:
    """Stands for decoding; `seed` chooses what happens."""
    seen.append(config)
    if config.seed == 3:
        Path("/nowhere/weights").read_bytes()
    if config.seed == 4:
        app.require_writable(config.out)
    if config.seed == 5:
        raise RuntimeError("a defect")
    if config.seed == 6:
        int("six")
    if config.seed == 7:
        raise ModuleNotFoundError("No module named 'pyworld'", name="pyworld")
    return config.seed if config.seed > 9 else 0


decode = app.command(
    "decode", DecodeConfig, run, examples=("sst-decode limit=5",), implied=choices.LOGS_BESIDE_RUNS
)
