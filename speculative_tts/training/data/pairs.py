"""Training and dev sequences of a draft from the codes store, keyed by sample number.

A sequence is what inference sees: [sos] words of a prompt utterance and of the utterance [task]
codes of both [eos].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from speculative_tts.models.cosyvoice import CosyVoiceLayout
from speculative_tts.models.families import VALLE, family_of, load_layout
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.rows import RowLayout
from speculative_tts.schema import CheckpointConfig
from speculative_tts.training.data.recordings import Recording, collate, load_recordings
from speculative_tts.training.data.rows_data import RowPairs
from speculative_tts.training.data.text_data import TextPairs
from speculative_tts.training.data.valle_data import VallePairs
from speculative_tts.training.objective import Batch

_DEV_SEED = 1_000_003  # dev sequences are the same for every training seed


@dataclass(frozen=True)
class Data:
    """`batch` makes a training batch of sample numbers (0, 1, ... endless); `dev` is fixed."""

    batch: Callable[[Sequence[int]], Batch]
    dev: Sequence[Batch]


class Pairs:
    """Numbered sequences: each utterance once an epoch, in random order, after a random prompt."""

    def __init__(self, folder: Path, layout: SpeechLayout, split: str, seed: int) -> None:
        recordings = load_recordings(folder, layout, split)
        self._layout, self._seed = layout, seed
        self._by_speaker = [
            [r for group in groups.values() for r in group] for groups in recordings.by_speaker
        ]
        self._index = [(s, i) for s, own in enumerate(self._by_speaker) for i in range(len(own))]
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def __len__(self) -> int:
        """Sequences in an epoch."""
        return len(self._index)

    def sequence(self, number: int) -> tuple[Recording, ...]:
        """Prompt and utterance of sample `number`, a function of (data, seed, number).

        The prompt is another recording of the speaker; there is none if there is no other.
        """
        epoch, place = divmod(number, len(self))
        speaker, index = self._index[self._order(epoch)[place]]
        own = self._by_speaker[speaker]
        if len(own) == 1:
            return (own[index],)
        rng = np.random.default_rng([self._seed, epoch, place])
        prompt = (index + int(rng.integers(1, len(own)))) % len(own)
        return own[prompt], own[index]

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng([self._seed, epoch]).permutation(len(self))

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Samples `numbers`, padded on the right."""
        joined = collate([self.sequence(number) for number in numbers], self._layout)
        return Batch(joined.inputs, joined.targets)


def _pairs(
    codes: Path, target: CheckpointConfig, split: str, seed: int
) -> Pairs | RowPairs | TextPairs | VallePairs:
    """Sequences as the target's family writes them."""
    layout = load_layout(target)
    if isinstance(layout, SpeechLayout) and family_of(Path(target.path)) is VALLE:
        return VallePairs(codes, layout, split, seed)
    if isinstance(layout, CosyVoiceLayout):
        return TextPairs(codes, layout, split, seed)
    if isinstance(layout, RowLayout):
        return RowPairs(codes, layout, split, seed)
    if isinstance(layout, SpeechLayout):
        return Pairs(codes, layout, split, seed)
    raise ValueError(
        f"drafts of a {type(layout).__name__} checkpoint are not trained here; "
        "give a target whose codes are rows of one vocabulary"
    )


def load_data(
    codes: Path, target: CheckpointConfig, *, seed: int, batch_size: int, dev_utterances: int
) -> Data:
    """Train and dev sequences of a codes store in the target's vocabulary. ValueError if absent."""
    if not codes.is_dir():
        raise ValueError(
            f"codes folder {codes} not found; make it with sst-prepare or give codes=<folder>"
        )
    train, dev = (
        _pairs(codes, target, split, key) for split, key in (("train", seed), ("dev", _DEV_SEED))
    )
    count = min(dev_utterances, len(dev))
    batches = [
        dev.batch(range(start, min(start + batch_size, count)))
        for start in range(0, count, batch_size)
    ]
    return Data(train.batch, batches)
