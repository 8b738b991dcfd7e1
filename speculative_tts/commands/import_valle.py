"""Turns an official VALL-E or USLM checkpoint into a folder that every command reads.

The authors' training leaves a .pt file and a table of phoneme symbols; the folder has config.json,
model.safetensors and speech.json. Texts become phonemes by espeak (extra `papers`).
"""

import sys
from pathlib import Path

from speculative_tts.commands import app
from speculative_tts.schema import ImportConfig


def run(config: ImportConfig) -> int:
    """Import one checkpoint."""
    from speculative_tts.models.valle.importing import import_valle

    layout = import_valle(
        Path(config.checkpoint),
        Path(config.symbols),
        app.require_writable(config.out),
        heads=config.heads,
        prefix_mode=config.prefix_mode,
        language=config.phonemes,
    )
    print(f"{config.out}: {layout.n_codes} codes, {len(layout.words)} symbols of phonemes")
    return 0


main = app.command(
    "import_valle",
    ImportConfig,
    run,
    examples=(
        "sst-import-valle checkpoint=exp/best-valid-loss.pt symbols=unique_text_tokens.k2symbols",
        "sst-import-valle checkpoint=USLM.pt symbols=uslm.k2symbols heads=16 out=models/uslm",
    ),
)

if __name__ == "__main__":
    sys.exit(main())
