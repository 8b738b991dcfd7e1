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
    from speculative_tts.models.valle.checkpoint import read_checkpoint
    from speculative_tts.models.valle.importing import import_valle, options_of

    checkpoint = Path(config.checkpoint)
    written = read_checkpoint(checkpoint)[1]
    options = options_of(written, config.model, config.heads, config.prefix_mode)
    folder = app.require_writable(config.out)
    layout = import_valle(checkpoint, Path(config.symbols), folder, options, config.phonemes)
    print(f"{config.out}: {layout.n_codes} codes, {len(layout.words)} symbols of phonemes")
    if options.assumed:
        print(f"{checkpoint} does not say, so assumed: {'; '.join(options.assumed)}")
    return 0


main = app.command(
    "import_valle",
    ImportConfig,
    run,
    examples=(
        "sst-import-valle checkpoint=exp/best-valid-loss.pt symbols=unique_text_tokens.k2symbols",
        "sst-import-valle model=uslm checkpoint=USLM.pt symbols=uslm.k2symbols out=models/uslm",
    ),
)

if __name__ == "__main__":
    sys.exit(main())
