"""Training sequences of VALL-E: text ids, then codes of the first layer, told apart by their range.

Codes come behind all text ids, as in the prompts of `models.valle.lm`; -1 is padding. The codes of
the voice prompt are learnt too, but for the very first: it is an input only.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.valle.ar import ValleAR
from speculative_tts.training.data.recordings import IGNORED
from speculative_tts.training.data.rows_data import RowPairs
from speculative_tts.training.objective import Batch

PADDING = -1


class VallePairs:
    """Numbered sequences: an utterance after a random prompt of its speaker, as `RowPairs`."""

    def __init__(self, folder: Path, layout: SpeechLayout, split: str, seed: int) -> None:
        self._layout = layout
        self._pairs = RowPairs(folder, cast("Any", layout), split, seed)  # reads n_codes only

    def __len__(self) -> int:
        """Sequences in an epoch."""
        return len(self._pairs)

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Samples `numbers`, padded on the right."""
        rows = [self._sequence(number) for number in numbers]
        inputs = pad_sequence([row for row, _ in rows], batch_first=True, padding_value=PADDING)
        targets = pad_sequence([t for _, t in rows], batch_first=True, padding_value=IGNORED)
        return Batch(inputs, targets)

    def _sequence(self, number: int) -> tuple[Tensor, Tensor]:
        """Inputs of a sequence and its targets, IGNORED at text: int64 [length] each."""
        prompt, utterance = self._pairs.pair(number)
        said = "" if prompt is None else prompt.text
        voice = [] if prompt is None else [int(code) for code in prompt.codes]
        codes = torch.tensor([*voice, *(int(code) for code in utterance.codes)])
        words = self._layout.text_ids(utterance.text, said)
        text = torch.tensor([self._layout.sos_id, *words, self._layout.task_id])
        following = torch.cat([codes[1:], torch.tensor([self._layout.eos_id])])
        nothing = torch.full_like(text, IGNORED)
        return torch.cat([text, codes + first_code(self._layout)]), torch.cat([nothing, following])


def first_code(layout: SpeechLayout) -> int:
    """The id of code 0 in inputs."""
    return layout.text_offset + len(layout.words)


def hidden_states(ar: ValleAR, ids: Tensor, begin: int) -> Tensor:
    """Final hidden states of inputs [batch, length] whose code 0 is `begin`; zero at text.

    Returns [batch, length, dim].
    """
    is_code, is_text = ids >= begin, (ids >= 0) & (ids < begin)
    texts, codes = (
        [row[mask] for row, mask in zip(ids, masks, strict=True)] for masks in (is_text, is_code)
    )
    text = pad_sequence(texts, batch_first=True)
    audio = pad_sequence([row - begin for row in codes], batch_first=True)

    def behind(rows: list[Tensor], width: int) -> Tensor:
        lengths = torch.tensor([len(row) for row in rows], device=ids.device)
        return torch.arange(width, device=ids.device) >= lengths[:, None]

    silent = behind(codes, audio.shape[1])
    states = ar.hidden(text, audio, behind(texts, text.shape[1]), silent)
    out = states.new_zeros(*ids.shape, states.shape[-1])
    out[is_code] = states[~silent]
    return out
