"""Training sequences of CosyVoice targets: [sos] texts [task] codes [eos], text by its tokenizer.

The codes of the voice prompt are learnt too: they are speech of the same speaker.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch

from speculative_tts.models.cosyvoice import CosyVoiceLayout
from speculative_tts.training.data.recordings import IGNORED
from speculative_tts.training.data.rows_data import RowPairs
from speculative_tts.training.objective import Batch


class TextPairs:
    """Numbered sequences: an utterance after a random prompt of its speaker, as `RowPairs`."""

    def __init__(self, folder: Path, layout: CosyVoiceLayout, split: str, seed: int) -> None:
        self._layout = layout
        self._pairs = RowPairs(folder, cast("Any", layout), split, seed)  # reads n_codes only

    def __len__(self) -> int:
        """Sequences in an epoch."""
        return len(self._pairs)

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Samples `numbers`, padded on the right."""
        sequences = [self._sequence(number) for number in numbers]
        length = max(len(rows) for rows, _ in sequences) - 1
        inputs = torch.full((len(sequences), length), self._layout.eos_id)
        targets = torch.full((len(sequences), length), IGNORED)
        for index, (rows, speech) in enumerate(sequences):
            whole = torch.tensor(rows)
            inputs[index, : len(rows) - 1] = whole[:-1]
            targets[index, speech - 1 : len(rows) - 1] = whole[speech:]
        return Batch(inputs, targets)

    def _sequence(self, number: int) -> tuple[list[int], int]:
        """Rows of a sequence, and how many there are before its speech."""
        prompt, utterance = self._pairs.pair(number)
        voice = [] if prompt is None else list(prompt.codes)
        text = "" if prompt is None else prompt.text
        rows = self._layout.prompt_ids(utterance.text, text, [*voice, *utterance.codes])
        speech = len(rows) - len(voice) - len(utterance.codes)
        return [*rows, self._layout.eos_id], speech
