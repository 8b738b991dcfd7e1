"""Trains heads that predict the next n tokens from a target's hidden state (MTP).

On a frozen trunk hidden states are computed once and kept in memory; with train_trunk the target is
trained along, and written beside the heads. A killed training goes on where it was.
"""

import dataclasses
import json

from speculative_tts import assets
from speculative_tts.commands import app
from speculative_tts.schema import TrainHeadsConfig


def run(config: TrainHeadsConfig) -> int:
    """Train or continue the heads of `config`; prints their dev figures as JSON."""
    import torch

    from speculative_tts.training.data.pairs import load_data
    from speculative_tts.training.heads import train_heads

    path = assets.resolve(config.target.path)
    config = dataclasses.replace(config, target=dataclasses.replace(config.target, path=str(path)))
    app.require_device(config.device)
    codes, out = app.require_codes(config.codes), app.require_writable(config.out)
    torch.set_num_threads(config.threads)
    data = load_data(
        codes,
        config.target,
        seed=config.seed,
        batch_size=16,
        dev_utterances=config.dev_utterances,
    )
    figures = train_heads(config, data)
    print(json.dumps({"heads": str(out), **figures}))
    return 0


main = app.command(
    "train_heads",
    TrainHeadsConfig,
    run,
    examples=(
        "sst-train-heads n=8 out=runs/heads",
        "sst-train-heads optimiser=scaled_adam learning_rate=0.05 warmup=200 out=runs/heads-eden",
    ),
)
