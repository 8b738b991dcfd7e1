"""Training sequences of LMs whose codes are vocabulary rows (LLaSA): the prompt as at inference.

A sequence is the conversation up to the start of speech, the codes of a voice prompt, the codes of
the utterance and the end of speech; losses count from the first code on.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from speculative_tts.models.rows import RowLayout
from speculative_tts.training.data.columns import Columns, Utterance
from speculative_tts.training.data.recordings import IGNORED
from speculative_tts.training.objective import Batch


class RowPairs:
    """Numbered sequences: each utterance once an epoch, in random order, after a random prompt.

    A sequence beyond the checkpoint's max_length is cut there, as the published training rows are.
    """

    def __init__(self, folder: Path, layout: RowLayout, split: str, seed: int) -> None:
        self._layout, self._seed = layout, seed
        self._columns = Columns.open(folder, split, layout.n_codes)
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def __len__(self) -> int:
        """Sequences in an epoch."""
        return len(self._columns)

    def pair(self, number: int) -> tuple[Utterance | None, Utterance]:
        """Voice prompt and utterance of sample `number`, a function of (data, seed, number)."""
        epoch, place = divmod(number, len(self))
        chosen = int(self._order(epoch)[place])
        speaker = self._columns.speaker(chosen)
        first, end = (int(n) for n in self._columns.starts[speaker : speaker + 2])
        if end - first == 1:
            return None, self._columns[chosen]
        rng = np.random.default_rng([self._seed, epoch, place])
        other = first + (chosen - first + int(rng.integers(1, end - first))) % (end - first)
        return self._columns[other], self._columns[chosen]

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Samples `numbers`, padded on the right."""
        sequences = []
        for number in numbers:
            prompt, utterance = self.pair(number)
            sequences.append(
                sequence_rows(
                    self._layout,
                    utterance.text,
                    "" if prompt is None else prompt.text,
                    () if prompt is None else prompt.codes,
                    utterance.codes,
                )
            )
        return collate(sequences, self._layout)

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng([self._seed, epoch]).permutation(len(self))


def sequence_rows(
    layout: RowLayout,
    text: str,
    prompt_text: str,
    prompt_codes: Iterable[int],
    codes: Sequence[int],
) -> tuple[list[int], int]:
    """Rows of a whole sequence with its end of speech, and how many of them are not learnt.

    Codes of the voice prompt are learnt too: they are speech of the same speaker.
    """
    voice = list(prompt_codes)
    rows = layout.prompt_ids(text, prompt_text, [*voice, *codes])
    return [*rows, layout.end], len(rows) - len(voice) - len(codes)


def collate(sequences: Sequence[tuple[list[int], int]], layout: RowLayout) -> Batch:
    """Right-padded inputs, and targets one further on; IGNORED where nothing is learnt."""
    cut = [(rows[: layout.config.max_length], start) for rows, start in sequences]
    length = max(len(rows) for rows, _ in cut) - 1
    inputs = torch.full((len(cut), length), layout.end)
    targets = torch.full((len(cut), length), IGNORED)
    for index, (rows, start) in enumerate(cut):
        whole = torch.tensor(rows)
        inputs[index, : len(rows) - 1] = whole[:-1]
        targets[index, start - 1 : len(rows) - 1] = whole[start:]
    return Batch(inputs, targets)
