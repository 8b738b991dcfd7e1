"""Trains the tiny target, a speech LM of CosyVoice 2's shape, on what sst-prepare wrote.

family=tiny_fine goes on from that target with finer codes and more layers; family=valle trains the
tiny VALL-E instead: an AR with multi-token heads, then a NAR; family=sentences the target that
speaks any sentence, on what sst-prepare corpus=sentences wrote (device=cuda dtype=bfloat16
sentences.seconds=110: two minutes of a GPU). A run that was cut off continues at
its last checkpoint.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from speculative_tts.commands import app
from speculative_tts.commands.train import Train, train
from speculative_tts.schema.train import Architecture, TrainTargetConfig


def run(config: TrainTargetConfig) -> int:
    """Train, or go on training, the target in `config.out`; print its last figures as JSON."""
    corpus = Path(config.prepared)
    if not (corpus / config.codes).is_dir():
        raise ValueError(
            f"{corpus} has no {config.codes}/; run sst-prepare, or give prepared=<folder>"
        )
    return train("target", config, MAKE[config.architecture](config), device=config.device)


def _target(config: TrainTargetConfig) -> Train:
    from speculative_tts_makers.training.target import TargetRecipe, train_target

    return partial(train_target, TargetRecipe(**vars(config)))


def _valle(config: TrainTargetConfig) -> Train:
    from speculative_tts_makers.training.valle import TrainValleConfig, train_valle

    own = TrainValleConfig.of(config)
    return partial(train_valle, own, Path(config.prepared), Path(config.out))


def _sentences(config: TrainTargetConfig) -> Train:
    from speculative_tts_makers.training.sentences import SentenceRecipe, train_sentences

    return partial(train_sentences, SentenceRecipe.of(config))


MAKE: dict[Architecture, Callable[[TrainTargetConfig], Train]] = {
    Architecture.cosyvoice: _target,
    Architecture.valle: _valle,
    Architecture.sentences: _sentences,
}

main = app.command(
    "train_target",
    TrainTargetConfig,
    run,
    examples=(
        "sst-train-target",
        "sst-train-target family=tiny_fine",
        "sst-train-target family=valle",
        "sst-train-target family=sentences device=cuda dtype=bfloat16 sentences.seconds=110",
        "sst-train-target steps=200 watch_every=100 out=runs/short",
    ),
    first=(
        *("family", "prepared", "init", "layers", "steps"),
        *("matrix_lr", "watch_every", "threads", "out", "seed"),
    ),
)

if __name__ == "__main__":
    sys.exit(main())
