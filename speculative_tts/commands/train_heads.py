"""Trains heads that predict the next n tokens from a target's hidden state (MTP).

On a frozen trunk hidden states are computed once and kept in memory; with train_trunk the target is
trained along, and written too. A killed training goes on where it was.
"""

import sys
from dataclasses import replace
from functools import partial

from speculative_tts.commands import app
from speculative_tts.commands.train import train
from speculative_tts.schema.train import TrainHeadsConfig


def run(config: TrainHeadsConfig) -> int:
    """Train or continue the heads of `config`; print their dev figures as JSON."""
    from speculative_tts.training.devices import fast_dtype
    from speculative_tts.training.heads import train_heads

    app.require_device(config.device)
    app.require_codes(config.codes)
    dtype = config.dtype or fast_dtype(config.device)
    job = partial(train_heads, replace(config, dtype=dtype))
    return train("heads", config, job, device=config.device, dtype=dtype)


main = app.command(
    "train_heads",
    TrainHeadsConfig,
    run,
    examples=(
        "sst-train-heads n=8 out=runs/heads",
        "sst-train-heads optimiser=scaled_adam learning_rate=0.05 warmup=200 out=runs/heads-eden",
        "sst-train-heads recipe=recurrent minutes=30 out=runs/recurrent",
        "sst-train-heads recipe=valle_heads",
        "torchrun --nproc-per-node 2 -m speculative_tts.commands.train_heads train_trunk=true",
    ),
    first=(
        *("recipe", "target", "codes", "n", "kind"),
        *("steps", "minutes", "learning_rate", "out", "device"),
    ),
)

if __name__ == "__main__":
    sys.exit(main())
