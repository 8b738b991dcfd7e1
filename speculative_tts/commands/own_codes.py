"""Decodes training texts with the target itself: on-policy codes for drafts and heads.

A store as sst-prepare's, for sst-train-draft and sst-train-heads: codes_from=target learns from it,
codes_from=mix from the recorded codes too. With laws=32 it has the target's laws as well, which
sst-train-draft laws=true reads. A killed run goes on with the shards that are missing.
Prints as JSON utterances, those left out because they did not end, and codes.
"""

import sys

from speculative_tts.commands import app, choices
from speculative_tts.schema.own import OwnCodesConfig
from speculative_tts.typed import json_text


def run(config: OwnCodesConfig) -> int:
    """Make the shards that are missing."""
    from speculative_tts.training.own import own_codes

    app.require_codes(config.codes)
    app.require_writable(config.out)
    print(json_text(own_codes(config)))
    return 0


main = app.command(
    "own_codes",
    OwnCodesConfig,
    run,
    examples=(
        "sst-own-codes limit=500",
        "sst-own-codes job=0,1,2,3 jobs=4",
        "sst-own-codes limit=500 laws=32",
    ),
    implied=choices.CODEC_OF_TARGET,
)

if __name__ == "__main__":
    sys.exit(main())
