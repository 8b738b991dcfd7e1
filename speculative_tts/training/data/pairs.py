"""Training and dev sequences in a target's vocabulary, numbered; what inference sees, as one row.

A sequence is the prompt of an utterance after a voice prompt of its speaker, then the codes of both
and the end. The voice prompt's codes are learnt too: they are speech of the same speaker. Where the
target's laws are read, the voice prompt is the one that they follow.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from speculative_tts.models.families.cosyvoice import CosyVoiceLayout
from speculative_tts.models.families.registry import VALLE, family_of, load_layout
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import Layout
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.train import CodesFrom
from speculative_tts.training.data.columns import Columns, Utterance
from speculative_tts.training.data.recordings import IGNORED
from speculative_tts.training.laws import Laws

CUT = "cut_sequences"  # in journals and summaries
LOST = "were longer than the target's rows may be (target.rows.max_length) and lost their end"
PADDING = -1  # of VALL-E's inputs; other targets are causal and never see what pads
DEV_SEED = 1_000_003  # dev sequences are the same for every training seed


@dataclass(frozen=True)
class Batch:
    """Right-padded sequences; `targets` are `inputs` one further on, IGNORED outside speech."""

    inputs: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]
    cut: int = 0  # sequences that were longer than the target's rows may be, and lost their end
    laws: Laws | None = None  # the target's, of rows of its head; NaN where there are none

    def to(self, device: torch.device) -> "Batch":
        """The batch on `device`."""
        laws = self.laws and self.laws.to(device)
        return Batch(self.inputs.to(device), self.targets.to(device), self.cut, laws)


@dataclass(frozen=True)
class Data:
    """`batch` makes a training batch of sample numbers (0, 1, ... endless); `dev` is fixed."""

    batch: Callable[[Sequence[int]], Batch]
    dev: Sequence[Batch]


@dataclass(frozen=True)
class Written:
    """A sequence as ids with its end; the first `given` of them are inputs only."""

    ids: list[int]
    given: int
    cut: bool = False  # are these not all
    laws: Laws | None = None  # of all that are not given


@dataclass(frozen=True)
class Writing:
    """How a target's family writes sequences."""

    write: Callable[[Utterance | None, Utterance], Written]
    padding: int  # of inputs
    offset: int = 0  # of inputs over targets, where codes are numbered behind the text
    by_words: bool = False  # number a speaker's utterances by length; shipped drafts saw them so


class Pairs:
    """Numbered sequences: each utterance once an epoch, in random order, after a random prompt.

    The prompt is another recording of the speaker; there is none if there is no other.
    """

    def __init__(self, columns: Columns, writing: Writing, seed: int) -> None:
        self._columns, self._writing, self._seed = columns, writing, seed
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def __len__(self) -> int:
        """Sequences in an epoch."""
        return len(self._columns)

    def pair(self, number: int) -> tuple[Utterance | None, Utterance]:
        """Voice prompt and utterance of sample `number`, a function of (data, seed, number)."""
        epoch, place = divmod(number, len(self))
        chosen = int(self._order(epoch)[place])
        said = self._columns[chosen]
        if said.laws is not None:
            return said.voice, said
        speaker = self._columns.speaker(chosen)
        first, end = (int(n) for n in self._columns.starts[speaker : speaker + 2])
        if end - first == 1:
            return None, said
        rng = np.random.default_rng([self._seed, epoch, place])
        other = first + (chosen - first + int(rng.integers(1, end - first))) % (end - first)
        return self._columns[other], said

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Samples `numbers`, padded on the right."""
        writing = self._writing
        return collate([writing.write(*self.pair(number)) for number in numbers], writing)

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng([self._seed, epoch]).permutation(len(self))


def collate(sequences: Sequence[Written], writing: Writing) -> Batch:
    """Right-padded inputs, and targets one further on; IGNORED where nothing is learnt."""
    length = max(len(sequence.ids) for sequence in sequences) - 1
    inputs = torch.full((len(sequences), length), writing.padding)
    targets = torch.full((len(sequences), length), IGNORED)
    for row, sequence in enumerate(sequences):
        ids, end = torch.tensor(sequence.ids), len(sequence.ids) - 1
        inputs[row, :end] = ids[:-1]
        targets[row, sequence.given - 1 : end] = ids[sequence.given :] - writing.offset
    cut = sum(sequence.cut for sequence in sequences)
    return Batch(inputs, targets, cut, _padded_laws(sequences, length))


def _padded_laws(sequences: Sequence[Written], length: int) -> Laws | None:
    """Beside the targets; None where no sequence has laws."""
    first = next((one.laws for one in sequences if one.laws is not None), None)
    if first is None:
        return None
    at = len(sequences), length
    ids = first.ids.new_zeros(*at, first.ids.shape[-1])
    laws = Laws(ids, ids.float(), torch.full(at, torch.nan))
    for row, one in enumerate(sequences):
        if one.laws is not None:
            begin, count = one.given - 1, max(0, len(one.ids) - one.given)
            for whole, part in zip(laws.parts, one.laws.parts, strict=True):
                whole[row, begin : begin + count] = part[:count]
    return laws


def write_rows(
    layout: Layout, end: int, longest: int | None, prompt: Utterance | None, said: Utterance
) -> Written:
    """The prompt as at inference, codes, the row `end`; cut to `longest` as published rows are."""
    voice, text = ([], "") if prompt is None else (prompt.codes, prompt.text)
    ids = layout.prompt_ids(Prompt(said.text, text, torch.tensor([*voice, *said.codes])))
    given, laws = len(ids) - len(voice) - len(said.codes), said.laws
    if laws is not None:
        laws = replace(laws, ids=layout.order(text_rows=False)[laws.ids])
    whole = [*ids, end]
    return Written(whole[:longest], given, longest is not None and len(whole) > longest, laws)


def write_valle(layout: SpeechLayout, prompt: Utterance | None, said: Utterance) -> Written:
    """Text ids, then codes behind all text ids as in `models.families.valle.lm`'s prompts.

    The very first code is an input only.
    """
    voice, text = ([], "") if prompt is None else (prompt.codes, prompt.text)
    begin = first_code(layout)
    texts = [layout.sos_id, *layout.text_ids(said.text, text), layout.task_id]
    codes = [begin + code for code in (*voice, *said.codes, layout.eos_id)]
    return Written([*texts, *codes], len(texts) + 1)


def first_code(layout: SpeechLayout) -> int:
    """The id of code 0 in VALL-E's inputs."""
    return layout.text_offset + len(layout.words)


def writing_of(target: CheckpointConfig) -> tuple[Layout, Writing]:
    """The layout of a target, and how its family writes. ValueError if it is not trained here."""
    layout = load_layout(target)
    if isinstance(layout, RowLayout):
        write = partial(write_rows, layout, layout.end, layout.config.max_length)
        return layout, Writing(write, layout.end)
    if isinstance(layout, SpeechLayout) and family_of(Path(target.path)) is VALLE:
        return layout, Writing(partial(write_valle, layout), PADDING, first_code(layout))
    if isinstance(layout, SpeechLayout):
        write = partial(write_rows, layout, layout.eos_id, None)
        tiny = not isinstance(layout, CosyVoiceLayout)
        return layout, Writing(write, layout.eos_id, by_words=tiny)
    raise ValueError(
        f"drafts of a {type(layout).__name__} checkpoint are not trained here; "
        "give a target whose codes are rows of one vocabulary"
    )


class Asked(Protocol):
    """What the settings of a draft's and of heads' training say of their data."""

    target: CheckpointConfig
    codes: str
    codes_from: CodesFrom
    own: str
    seed: int
    dev_utterances: int | None


def learnt_from(config: Asked) -> list[Path]:
    """Folders of the codes that are learnt. ValueError if they are absent."""
    codes, own = Path(config.codes), Path(config.own)
    if not codes.is_dir():
        raise ValueError(
            f"codes folder {codes} not found; make it with sst-prepare or give codes=<folder>"
        )
    if config.codes_from is not CodesFrom.recorded and not own.is_dir():
        raise ValueError(
            f"codes_from={config.codes_from.name} reads the target's own codes, and there is no "
            f"{own}; make it with sst-own-codes or give own=<folder>"
        )
    return {
        CodesFrom.recorded: [codes],
        CodesFrom.target: [own],
        CodesFrom.mix: [own, codes],
    }[config.codes_from]


def load_data(config: Asked, batch_size: int, *, laws: bool = False) -> Data:
    """Train and dev sequences in the target's vocabulary. ValueError if their folders are absent.

    Dev sequences are recorded ones, whatever is learnt from. With `laws` those of the target's own
    codes come along.
    """
    learnt = learnt_from(config)
    layout, writing = writing_of(config.target)
    open_ = partial(Columns.open, n_codes=layout.n_codes, by_words=writing.by_words)
    train = Pairs(open_(learnt, "train", laws=laws), writing, config.seed)
    dev = Pairs(open_([Path(config.codes)], "dev"), writing, DEV_SEED)
    count = min(config.dev_utterances or len(dev), len(dev))
    batches = [
        dev.batch(range(start, min(start + batch_size, count)))
        for start in range(0, count, batch_size)
    ]
    return Data(train.batch, batches)
