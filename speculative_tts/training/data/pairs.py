"""Number training and dev sequences in a target's vocabulary, each laid out as at inference.

A sequence is the prompt of an utterance after a voice prompt of its speaker, then the codes of both
and the end. The voice prompt's codes are learnt too: they are speech of the same speaker. Where the
target's stored distributions are read, the voice prompt is the one they were computed with.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from speculative_tts.models.families.cosyvoice import CosyVoiceLayout
from speculative_tts.models.families.csm.layout import CsmLayout
from speculative_tts.models.families.registry import VALLE, family_of, load_layout
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import Layout, follows_voice
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.train import CodesFrom, CodesTrainingConfig
from speculative_tts.training.data.columns import Columns, StoredUtterance
from speculative_tts.training.laws import TopDistributions

IGNORED = -100  # target of a position from which nothing is learnt
CUT = "cut_sequences"  # in journals and summaries
LOST = "were longer than the target's rows may be (target.rows.max_length) and lost their end"
PADDING = -1  # of VALL-E's inputs; other targets are causal and never see padding
DEV_SEED = 1_000_003  # dev sequences are the same for every training seed


@dataclass(frozen=True)
class SequenceBatch:
    """Right-padded sequences; `targets` are the `inputs` one step later, IGNORED outside speech."""

    inputs: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]
    cut: int = 0  # sequences that lost their end: they were longer than the target's rows may be
    laws: TopDistributions | None = None  # the target's, over its head's rows; NaN where unknown

    def to(self, device: torch.device) -> "SequenceBatch":
        """Return the batch on `device`."""
        laws = self.laws and self.laws.to(device)
        return SequenceBatch(self.inputs.to(device), self.targets.to(device), self.cut, laws)


@dataclass(frozen=True)
class Data:
    """Training batches by sample numbers (0, 1, ... endless), and the fixed dev batches."""

    batch: Callable[[Sequence[int]], SequenceBatch]
    dev: Sequence[SequenceBatch]


@dataclass(frozen=True)
class TokenSequence:
    """Ids of a sequence with its end; the first `given` of them are inputs only."""

    ids: list[int]
    given: int
    cut: bool = False  # True if the end was cut off
    laws: TopDistributions | None = None  # of all ids that are not given


@dataclass(frozen=True)
class SequenceWriter:
    """The way a target's family lays out its sequences."""

    write: Callable[[StoredUtterance | None, StoredUtterance], TokenSequence]
    padding: int  # of inputs
    offset: int = 0  # inputs minus targets, where codes are numbered after the text
    by_words: bool = False  # number a speaker's utterances by length, as for the shipped drafts


class PromptedSequences:
    """Number sequences: each utterance once an epoch, in random order, after a random prompt.

    The prompt is another recording of the speaker; a speaker's only recording has none.
    """

    def __init__(self, columns: Columns, writer: SequenceWriter, seed: int) -> None:
        self._columns, self._writer, self._seed = columns, writer, seed
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def __len__(self) -> int:
        """Return the number of sequences in an epoch."""
        return len(self._columns)

    def pair(self, number: int) -> tuple[StoredUtterance | None, StoredUtterance]:
        """Return voice prompt and utterance of a sample, a function of (data, seed, number)."""
        epoch, place = divmod(number, len(self))
        chosen = int(self._order(epoch)[place])
        utterance = self._columns[chosen]
        if utterance.laws is not None:
            return utterance.voice, utterance
        speaker = self._columns.speaker(chosen)
        first, end = (int(n) for n in self._columns.starts[speaker : speaker + 2])
        if end - first == 1:
            return None, utterance
        rng = np.random.default_rng([self._seed, epoch, place])
        other = first + (chosen - first + int(rng.integers(1, end - first))) % (end - first)
        return self._columns[other], utterance

    def batch(self, numbers: Sequence[int]) -> SequenceBatch:
        """Return the samples `numbers`, padded on the right."""
        writer = self._writer
        return collate([writer.write(*self.pair(number)) for number in numbers], writer)

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng([self._seed, epoch]).permutation(len(self))


def collate(sequences: Sequence[TokenSequence], writer: SequenceWriter) -> SequenceBatch:
    """Pad sequences on the right; targets are the inputs one step later, IGNORED if not learnt."""
    length = max(len(sequence.ids) for sequence in sequences) - 1
    inputs = torch.full((len(sequences), length), writer.padding)
    targets = torch.full((len(sequences), length), IGNORED)
    for row, sequence in enumerate(sequences):
        ids, end = torch.tensor(sequence.ids), len(sequence.ids) - 1
        inputs[row, :end] = ids[:-1]
        targets[row, sequence.given - 1 : end] = ids[sequence.given :] - writer.offset
    cut = sum(sequence.cut for sequence in sequences)
    return SequenceBatch(inputs, targets, cut, _pad_laws(sequences, length))


def _pad_laws(sequences: Sequence[TokenSequence], length: int) -> TopDistributions | None:
    """Align the stored distributions with the targets; None if no sequence has any."""
    first = next((one.laws for one in sequences if one.laws is not None), None)
    if first is None:
        return None
    at = len(sequences), length
    ids = first.ids.new_zeros(*at, first.ids.shape[-1])
    laws = TopDistributions(ids, ids.float(), torch.full(at, torch.nan))
    for row, one in enumerate(sequences):
        if one.laws is not None:
            begin, count = one.given - 1, max(0, len(one.ids) - one.given)
            for whole, part in zip(laws.parts, one.laws.parts, strict=True):
                whole[row, begin : begin + count] = part[:count]
    return laws


def write_rows(
    layout: Layout,
    end: int,
    longest: int | None,
    prompt: StoredUtterance | None,
    said: StoredUtterance,
) -> TokenSequence:
    """Write the prompt as at inference, codes and the row `end`, cut to `longest` rows."""
    voice, text = ([], "") if prompt is None else (prompt.codes, prompt.text)
    if not follows_voice(layout):
        voice, text = [], ""
    rows, laws = layout.order(text_rows=False), said.laws
    heard = Prompt(said.text, text, torch.tensor(voice, dtype=torch.int64))
    of_voice = (prompt.voice_codes if prompt else ()) or said.voice_codes
    ids = layout.prompt_ids(replace(heard, voice_codes=of_voice))
    last = rows[voice].tolist() == ids[len(ids) - len(voice) :]  # else another turn comes after
    given = len(ids) - len(voice) if last else len(ids)
    if laws is not None:
        laws = replace(laws, ids=rows[laws.ids])
    whole = [*ids, *rows[said.codes].tolist(), end]
    cut = longest is not None and len(whole) > longest
    return TokenSequence(whole[:longest], given, cut, laws)


def write_valle(
    layout: SpeechLayout, prompt: StoredUtterance | None, said: StoredUtterance
) -> TokenSequence:
    """Write text ids, then codes numbered after all text ids, as in VALL-E's prompts.

    The very first code is an input only.
    """
    voice, text = ([], "") if prompt is None else (prompt.codes, prompt.text)
    begin = first_code(layout)
    texts = [layout.sos_id, *layout.text_ids(said.text, text), layout.task_id]
    codes = [begin + code for code in (*voice, *said.codes, layout.eos_id)]
    return TokenSequence([*texts, *codes], len(texts) + 1)


def write_frames(
    layout: CsmLayout, prompt: StoredUtterance | None, said: StoredUtterance
) -> TokenSequence:
    """Write the prompt's rows as at inference, then codes as rows after the text's, and the end.

    Frames that the backbone has no positions for are cut off.
    """
    voice, text = ([], "") if prompt is None else (prompt.codes, prompt.text)
    for codes in (voice, said.codes):
        layout.slots.check_frames(codes)
    ids = layout.prompt_ids(Prompt(said.text, text, torch.tensor(voice, dtype=torch.int64)))
    begin, books = layout.config.text_rows, layout.config.codebooks
    positions = len(ids) - len(voice) + len(voice) // books
    room = books * max(1, layout.config.backbone.max_positions - positions - 1)
    learnt = [begin + code for code in (*said.codes[:room], layout.n_codes)]
    return TokenSequence([*ids, *learnt], len(ids), cut=len(said.codes) > room)


def first_code(layout: SpeechLayout) -> int:
    """Return the id of code 0 in VALL-E's inputs."""
    return layout.text_offset + len(layout.words)


def sequence_writer(target: CheckpointConfig) -> tuple[Layout, SequenceWriter]:
    """Return a target's layout and sequence writer; raise ValueError if it is not trained here."""
    layout = load_layout(target)
    if isinstance(layout, RowLayout):
        write = partial(write_rows, layout, layout.end, layout.config.max_length)
        return layout, SequenceWriter(write, layout.end)
    if isinstance(layout, SpeechLayout) and family_of(Path(target.path)) is VALLE:
        return layout, SequenceWriter(partial(write_valle, layout), PADDING, first_code(layout))
    if isinstance(layout, SpeechLayout):
        write = partial(write_rows, layout, layout.eos_id, None)
        tiny = not isinstance(layout, CosyVoiceLayout)
        return layout, SequenceWriter(write, layout.eos_id, by_words=tiny)
    if isinstance(layout, CsmLayout):
        write = partial(write_frames, layout)
        return layout, SequenceWriter(write, PADDING, layout.config.text_rows)
    raise ValueError(
        f"drafts of a {type(layout).__name__} checkpoint are not trained here; "
        "give a target whose codes are rows of one vocabulary"
    )


def learnt_from(config: CodesTrainingConfig) -> list[Path]:
    """Return the folders of the codes that are learnt; raise ValueError if one is absent."""
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


def load_data(config: CodesTrainingConfig, batch_size: int, *, laws: bool = False) -> Data:
    """Open train and dev sequences; raise ValueError if their folders are absent.

    Dev sequences are always recorded ones. With `laws` the target's own codes come with its
    distributions.
    """
    learnt = learnt_from(config)
    layout, writer = sequence_writer(config.target)
    open_ = partial(Columns.open, n_codes=layout.n_codes, by_words=writer.by_words)
    train = PromptedSequences(open_(learnt, "train", laws=laws), writer, config.seed)
    dev = PromptedSequences(open_([Path(config.codes)], "dev"), writer, DEV_SEED)
    count = min(config.dev_utterances or len(dev), len(dev))
    batches = [
        dev.batch(range(start, min(start + batch_size, count)))
        for start in range(0, count, batch_size)
    ]
    return Data(train.batch, batches)
