"""Collate batches for a VALL-E-shaped target: text and layered codes of two takes of one speaker.

Sequences are drawn as for the CosyVoice-2-shaped target (`recordings`), laid out as
VALL-E reads them: text and audio apart, each padded on the right.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from speculative_tts.models.layout import SpeechLayout
from speculative_tts.training.data.pairs import IGNORED
from speculative_tts_makers.training.recordings import Recording, word_labels


@dataclass(frozen=True)
class ValleBatch:
    """Inputs (`codes`) and targets of each audio row; IGNORED after the end.

    `targets[:, t, i]` is the code i + 1 steps on, the end id beyond the last. `current_word` is the
    word spoken at the next code, `next_word` the one after it, `places` where both are in the text.
    `neighbours` are the words before and after each text id.
    """

    text: Int64[Tensor, "batch text"]
    text_lengths: Int64[Tensor, " batch"]
    neighbours: Int64[Tensor, "batch text 2"]
    codes: Int64[Tensor, "batch frames layers"]
    code_lengths: Int64[Tensor, " batch"]
    targets: Int64[Tensor, "batch frames heads"]
    current_word: Int64[Tensor, "batch frames"]
    next_word: Int64[Tensor, "batch frames"]
    places: Int64[Tensor, "batch frames 2"]


def collate_valle(
    sequences: list[tuple[Recording, ...]], layout: SpeechLayout, heads: int
) -> ValleBatch:
    """Pad sequences of one or two recordings each into one batch."""
    rows = [_arrays(sequence, layout, heads) for sequence in sequences]
    text, neighbours, codes, targets, current, following, places = zip(*rows, strict=True)
    return ValleBatch(
        text=_padded(text, layout.task_id),
        text_lengths=torch.tensor([len(row) for row in text]),
        neighbours=_padded(neighbours, IGNORED),
        codes=_padded(codes, 0),
        code_lengths=torch.tensor([len(row) for row in codes]),
        targets=_padded(targets, IGNORED),
        current_word=_padded(current, IGNORED),
        next_word=_padded(following, IGNORED),
        places=_padded(places, IGNORED),
    )


def _arrays(
    sequence: tuple[Recording, ...], layout: SpeechLayout, heads: int
) -> tuple[NDArray[np.int64], ...]:
    """Return text, neighbours, codes [frames, layers], targets [frames, heads] and word labels."""
    words, none = np.concatenate([r.words for r in sequence]), len(layout.words)
    text = np.array([layout.sos_id, *(words + layout.text_offset), layout.task_id])
    padded = np.array([none, none, *words, none, none])
    neighbours = np.column_stack([padded[:-2], padded[2:]])
    codes = np.concatenate([_layers(r) for r in sequence])
    ended = np.append(codes[:, 0], [layout.eos_id] * heads)
    ahead = np.arange(len(codes))[:, None] + np.arange(1, heads + 1)
    current, following = word_labels(sequence, none)
    return text, neighbours, codes, ended[ahead], current[1:], following[1:], _places(sequence)[1:]


def _places(sequence: tuple[Recording, ...]) -> NDArray[np.int64]:
    """Return the text places of the word spoken and of the next one: [frames + 1, 2].

    In silence no word is spoken: IGNORED. After the last word comes the end id.
    """
    firsts = np.cumsum([1, *(len(r.words) for r in sequence)])
    numbered = tuple(
        replace(r, words=np.arange(first, first + len(r.words)))
        for r, first in zip(sequence, firsts, strict=False)
    )
    end = int(firsts[-1])
    current, following = word_labels(numbered, end)
    return np.column_stack([np.where(current == end, IGNORED, current), following])


def _layers(recording: Recording) -> NDArray[np.int64]:
    """Return the codes of all layers: [frames, layers]."""
    if recording.residual_codes is None:
        return recording.codes[:, None]
    return np.column_stack([recording.codes, *recording.residual_codes])


def _padded(rows: tuple[NDArray[np.int64], ...], value: int) -> Tensor:
    """Pad arrays of different length but one width to [batch, longest, ...]."""
    tensors = [torch.from_numpy(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)
