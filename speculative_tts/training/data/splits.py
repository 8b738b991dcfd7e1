"""Batch train and dev utterances by length, in the layouts that an AR and a NAR read."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from speculative_tts.models.layout import SpeechLayout
from speculative_tts.schema.train import TrainHeadsConfig
from speculative_tts.training.data.buckets import Batches, Buckets
from speculative_tts.training.data.columns import Columns, StoredUtterance
from speculative_tts.training.data.pairs import (
    DEV_SEED,
    SequenceBatch,
    collate,
    learnt_from,
    sequence_writer,
)

AnyBatch = TypeVar("AnyBatch", "SequenceBatch", "LayeredBatch")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LayeredBatch:
    """Text and codes of all layers, each padded on the right."""

    text: Int64[Tensor, "batch text"]
    text_lengths: Int64[Tensor, " batch"]
    codes: Int64[Tensor, "batch frames layers"]
    code_lengths: Int64[Tensor, " batch"]

    def to(self, device: torch.device) -> "LayeredBatch":
        """Return the batch on `device`."""
        return LayeredBatch(*(tensor.to(device) for tensor in vars(self).values()))


@dataclass(frozen=True)
class Splits(Generic[AnyBatch]):
    """Training batches and dev batches."""

    train: Batches[AnyBatch]
    dev: Batches[AnyBatch]


def ar_splits(config: TrainHeadsConfig) -> Splits[SequenceBatch]:
    """Batch utterances in the layout of the target's family."""
    layout, writer = sequence_writer(config.target)

    def make(said: list[StoredUtterance]) -> SequenceBatch:
        return collate([writer.write(None, one) for one in said], writer)

    return _splits(config, layout.n_codes, config.joint.frames, make)


def nar_splits(config: TrainHeadsConfig, quantizers: int) -> Splits[LayeredBatch]:
    """Batch phonemes (or words) and codes of all layers; raise ValueError for other layers."""
    layout, _ = sequence_writer(config.target)
    assert isinstance(layout, SpeechLayout)

    def make(said: list[StoredUtterance]) -> LayeredBatch:
        texts = [
            torch.tensor([layout.sos_id, *layout.text_ids(one.text), layout.task_id])
            for one in said
        ]
        spoken = [torch.tensor([one.codes, *one.residual]).T for one in said]
        return LayeredBatch(
            pad_sequence(texts, batch_first=True),
            torch.tensor(list(map(len, texts))),
            pad_sequence(spoken, batch_first=True),
            torch.tensor(list(map(len, spoken))),
        )

    return _splits(config, layout.n_codes, config.joint.nar_frames, make, quantizers)


def _splits(
    config: TrainHeadsConfig,
    n_codes: int,
    frames: int,
    make: Callable[[list[StoredUtterance]], AnyBatch],
    layers: int | None = None,
) -> Splits[AnyBatch]:
    """Split utterances with `layers` of codes; dev ones are recorded, at most `dev_utterances`."""
    joint, recorded = config.joint, [Path(config.codes)]
    splits: list[Batches[AnyBatch]] = []
    for split, folders, seed in (
        ("train", learnt_from(config), config.seed),
        ("dev", recorded, DEV_SEED),
    ):
        columns = Columns.open(folders, split, n_codes, layers=layers is not None)
        if layers is not None and columns.layers != {layers}:
            raise ValueError(
                f"{' and '.join(map(str, folders))}: {split} utterances have "
                f"{' or '.join(map(str, sorted(columns.layers)))} layers of codes, the target "
                f"{layers}; make them with its codec, or give joint.nar_epochs=0"
            )
        numbers = np.random.default_rng(seed).permutation(len(columns))
        if split == "dev":
            numbers = numbers[: config.dev_utterances]
        lengths = columns.lengths[numbers]
        buckets = Buckets(
            lengths, frames=frames, shortest=joint.shortest, longest=joint.longest, seed=seed
        )
        if buckets.left_out:
            logger.warning(
                "%d of %d %s utterances are left out: they have not %d to %d codes",
                buckets.left_out,
                len(lengths),
                split,
                joint.shortest,
                min(frames, joint.longest or frames),
            )
        splits.append(Batches(buckets, partial(_make_batch, make, columns, numbers)))
    return Splits(*splits)


def _make_batch(
    make: Callable[[list[StoredUtterance]], AnyBatch],
    columns: Columns,
    numbers: NDArray[np.int64],
    places: list[int],
) -> AnyBatch:
    """Return the batch of the utterances at `places` of a split."""
    return make([columns[int(numbers[place])] for place in places])
