"""Trains a draft inherited from layers of a target, as SSD does; gives an ordinary checkpoint.

Chosen layers and all that is not a layer are copied; the first layers and the head are trained.

Run by torchrun, the batch is multiplied by the number of processes.
"""

import sys
from functools import partial

from speculative_tts.commands import app
from speculative_tts.commands.train import train
from speculative_tts.schema.train import TrainDraftConfig


def run(config: TrainDraftConfig) -> int:
    """Train or continue the draft of `config`; print the exported draft's summary as JSON."""
    from speculative_tts.training.draft import make_draft

    app.require_codes(config.codes)
    job = partial(make_draft, config)
    return train("draft", config, job, device=config.device, dtype=config.dtype)


main = app.command(
    "train_draft",
    TrainDraftConfig,
    run,
    examples=(
        "sst-train-draft layers=[0,1,10,11] train_layers=2 out=runs/draft-lower-upper",
        "sst-train-draft losses.ce=0 losses.lk=1 select=acceptance out=runs/draft-lk",
        "torchrun --nproc-per-node 2 -m speculative_tts.commands.train_draft out=runs/draft-two",
    ),
    first=(
        *("recipe", "target", "codes", "layers", "init"),
        *("steps", "minutes", "learning_rate", "out", "device"),
    ),
)

if __name__ == "__main__":
    sys.exit(main())
