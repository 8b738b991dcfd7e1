"""Training batches: layout, labels, determinism."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from speculative_tts.models.layout import SpeechLayout
from speculative_tts.training.data.pairs import IGNORED
from speculative_tts_makers.training.recordings import (
    BatchConfig,
    LabelledBatch,
    Recording,
    RecordingsBySpeaker,
    Stage,
    collate,
    draw_sequences,
    load_recordings,
    sequence_arrays,
)

LAYOUT = SpeechLayout.merged(n_codes=20, words=("alpha", "bravo", "charlie"))
SILENCE = END = 3


def recording(words: list[int], seed: int) -> Recording:
    """Two tokens of silence, two a word, one of silence."""
    rng = np.random.default_rng(seed)
    ends = 2 + 2 * np.arange(1, len(words) + 1)
    return Recording(np.array(words), rng.integers(20, size=int(ends[-1]) + 1), 2, ends)


def recordings() -> RecordingsBySpeaker:
    one = tuple(recording([i % 3], i) for i in range(4))
    two = tuple(recording([i % 3, (i + 1) % 3], 9 + i) for i in range(4))
    return RecordingsBySpeaker(({1: one, 2: two}, {1: one[:2], 2: two[:2]}))


def draw_batch(
    data: RecordingsBySpeaker, config: BatchConfig, seed: int, step: int
) -> LabelledBatch:
    rng = np.random.default_rng([seed, step])
    return collate(draw_sequences(rng, data, config, step), LAYOUT)


def test_sequence_is_sos_text_task_speech_and_targets_are_one_on() -> None:
    first, second = recording([0, 1], 1), recording([2], 2)
    inputs, targets, _, _ = sequence_arrays((first, second), LAYOUT)
    codes = [*first.codes, *second.codes]
    text = [LAYOUT.text_offset, LAYOUT.text_offset + 1, LAYOUT.text_offset + 2]
    assert inputs.tolist() == [LAYOUT.sos_id, *text, LAYOUT.task_id, *codes]
    assert targets.tolist() == [IGNORED] * 4 + [*codes, LAYOUT.eos_id]


def test_word_labels_follow_the_boundaries() -> None:
    _, _, current, following = sequence_arrays((recording([0, 1], 1), recording([2], 2)), LAYOUT)
    s = SILENCE
    assert current[4:].tolist() == [s, s, 0, 0, 1, 1, s, s, s, 2, 2, s, s]
    assert following[4:].tolist() == [0, 0, 1, 1, 2, 2, 2, 2, 2, END, END, END, END]


def test_batches_depend_on_seed_and_step_only() -> None:
    config = BatchConfig(tokens=200, stages=(Stage(1 << 30, 2),))
    first = draw_batch(recordings(), config, seed=1, step=7)
    again = draw_batch(recordings(), config, seed=1, step=7)
    other = draw_batch(recordings(), config, seed=1, step=8)
    assert torch.equal(first.inputs, again.inputs)
    assert first.inputs.shape != other.inputs.shape or not torch.equal(first.inputs, other.inputs)


def test_curriculum_limits_the_words_of_an_utterance() -> None:
    config = BatchConfig(tokens=200, single_share=1.0, stages=(Stage(5, 1), Stage(9, 2)))
    words = range(LAYOUT.text_offset, LAYOUT.sos_id)
    for step in range(9):
        inputs = draw_batch(recordings(), config, seed=1, step=step).inputs
        counts = torch.isin(inputs, torch.tensor(list(words))).sum(dim=1)
        assert int(counts.max()) <= (1 if step < 5 else 2)


def test_batch_stays_within_its_tokens() -> None:
    config = BatchConfig(tokens=150, stages=(Stage(1 << 30, 2),))
    for step in range(30):
        batch = draw_batch(recordings(), config, seed=3, step=step)
        assert batch.inputs.numel() <= 150


def test_padding_is_ignored() -> None:
    batch = collate([(recording([0], 1),), (recording([0, 1], 1),)], LAYOUT)
    assert (batch.targets[0, -3:] == IGNORED).all()
    assert (batch.current_word[0, -3:] == IGNORED).all()
    assert (batch.inputs[0, -3:] == LAYOUT.eos_id).all()


def test_a_speaker_without_short_utterances_gives_its_shortest() -> None:
    data = RecordingsBySpeaker(({2: (recording([0, 1], 1),)},))
    config = BatchConfig(tokens=200, single_share=1.0, stages=(Stage(1 << 30, 1),))
    inputs = draw_batch(data, config, seed=1, step=0).inputs
    assert (inputs[:, 1:3] == torch.tensor([LAYOUT.text_offset, LAYOUT.text_offset + 1])).all()


def test_shards_that_are_known_by_heart_are_passed_over(tmp_path: Path) -> None:
    for number in range(3):
        row = {"text": "alpha", "speaker": "s", "codes": [number], "speech_start": 0}
        table = pa.Table.from_pylist([row | {"word_ends": [1]}])
        pq.write_table(table, tmp_path / f"train-{number:04d}.parquet")

    def heard(first: int) -> list[int]:
        (by_length,) = load_recordings(tmp_path, LAYOUT, first).by_speaker
        return [int(one.codes[0]) for one in by_length[1]]

    assert heard(0) == [0, 1, 2]
    assert heard(2) == [2]
    with pytest.raises(ValueError, match=r"has 3 shards .*first_shard is 3; run sst-prepare"):
        heard(3)
