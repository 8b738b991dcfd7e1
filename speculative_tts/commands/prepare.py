"""Prepares the tiny corpus: speech, a codec trained on it, its codes, a dev and a test list.

Flite speaks random word strings in the voices of several speakers. Strings and some speakers of the
lists are never trained on. Needs the `flite` program and the extra `tiny`; a run that was cut off
continues.
"""

import dataclasses
import sys

from speculative_tts.commands import app
from speculative_tts.schema import PrepareConfig


def run(config: PrepareConfig) -> int:
    """Make the tiny corpus under `config.out`."""
    from speculative_tts.corpora import tiny

    out = app.require_writable(config.out)
    settings = dataclasses.asdict(config)
    del settings["out"]
    tiny.prepare_tiny(tiny.PrepareConfig(**settings), out)
    return 0


main = app.command(
    "prepare",
    PrepareConfig,
    run,
    examples=("sst-prepare", "sst-prepare n_takes=200 out=data/small"),
)

if __name__ == "__main__":
    sys.exit(main())
