"""Turns an official VALL-E or USLM checkpoint into a folder that every command reads.

The authors' training leaves a .pt file and a table of phoneme symbols; the folder has config.json,
model.safetensors and speech.json. Texts become phonemes by espeak (extra `papers`). fresh.codes
makes such a folder of untrained weights, from which sst-train-heads trains AR, heads and NAR.
"""

import sys
from pathlib import Path

from speculative_tts.commands import app
from speculative_tts.schema.prepare import ImportConfig


def run(config: ImportConfig) -> int:
    """Import one checkpoint, or make a fresh one."""
    from speculative_tts.models.families.valle.importing import import_valle, options_of
    from speculative_tts.state_dicts import read_state_dict
    from speculative_tts.training.fresh import fresh_checkpoint

    checkpoint, codes = config.checkpoint, config.fresh.codes
    if (checkpoint is None or config.symbols is None) == (codes is None):
        raise ValueError(
            f"checkpoint={checkpoint}, symbols={config.symbols}, fresh.codes={codes}: give "
            "checkpoint= and symbols= of a trained model, or fresh.codes= for an untrained one"
        )
    written = read_state_dict(Path(checkpoint))[1] if checkpoint else {}
    options = options_of(written, config.model, config.heads, config.prefix_mode)
    folder = app.require_writable(config.out)
    if checkpoint and config.symbols:
        given = Path(checkpoint), Path(config.symbols)
        layout = import_valle(*given, folder, options, config.phonemes)
    else:
        layout = fresh_checkpoint(config.fresh, options, folder, config.phonemes)
    print(f"{config.out}: {layout.n_codes} codes, {len(layout.words)} symbols of phonemes")
    if options.assumed:
        print(f"{checkpoint or codes} does not say, so assumed: {'; '.join(options.assumed)}")
    return 0


main = app.command(
    "import_valle",
    ImportConfig,
    run,
    examples=(
        "sst-import-valle checkpoint=exp/best-valid-loss.pt symbols=unique_text_tokens.k2symbols",
        "sst-import-valle model=uslm checkpoint=USLM.pt symbols=uslm.k2symbols out=models/uslm",
        "sst-import-valle fresh.codes=data/speechtokenizer/codes out=models/valle_start",
    ),
)

if __name__ == "__main__":
    sys.exit(main())
