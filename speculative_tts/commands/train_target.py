"""Trains the tiny target, a speech LM of CosyVoice 2's shape, on what sst-prepare wrote.

A run that was cut off continues at its last checkpoint.
"""

import dataclasses
import sys
from pathlib import Path

from speculative_tts.commands import app
from speculative_tts.schema import TrainTargetConfig

OUTSIDE = ("corpus", "out", "threads")  # keys that are not settings of the training itself


def run(config: TrainTargetConfig) -> int:
    """Train, or go on training, the target in `config.out`."""
    corpus = Path(config.corpus)
    if not (corpus / "codes").is_dir():
        raise ValueError(f"{corpus} has no codes/; run sst-prepare, or give corpus=<its output>")
    out = app.require_writable(config.out)

    import torch

    from speculative_tts.training import target

    torch.set_num_threads(config.threads)
    settings = {k: v for k, v in dataclasses.asdict(config).items() if k not in OUTSIDE}
    target.train_target(target.TrainTargetConfig(**settings), corpus, out)
    return 0


main = app.command(
    "train_target",
    TrainTargetConfig,
    run,
    examples=("sst-train-target", "sst-train-target steps=200 watch_every=100 out=runs/short"),
)

if __name__ == "__main__":
    sys.exit(main())
