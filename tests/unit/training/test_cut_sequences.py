"""Sequences longer than published rows may be: counted and told; they lost their end in silence."""

import json
from pathlib import Path

import pytest
from killed_trainings import killed_before
from small_target import save_codes

from speculative_tts.commands.train_draft import main
from speculative_tts.commands.train_heads import main as train_heads
from speculative_tts.models.families.registry import load_layout
from speculative_tts.schema.common import CheckpointConfig, RowsConfig
from speculative_tts.training.data.columns import Columns
from speculative_tts.training.data.pairs import PromptedSequences, sequence_writer

LLASA = Path(__file__).parents[2] / "golden/llasa/model_8b_style"
STEPS, SIZE = 5, 4


def middle(root: Path, *, alone: bool = False) -> tuple[int, int]:
    """A length that half of the first sequences exceed, and how many do."""
    save_codes(root / "codes")
    target = CheckpointConfig("llasa", str(LLASA), rows=RowsConfig(max_length=10_000))
    columns = Columns.open([root / "codes"], "train", load_layout(target).n_codes)
    writing = sequence_writer(target)[1]
    pairs = [
        PromptedSequences(columns, writing, seed=0).pair(number) for number in range(STEPS * SIZE)
    ]
    lengths = [len(writing.write(None if alone else voice, said).ids) for voice, said in pairs]
    limit = sorted(lengths)[len(lengths) // 2]
    return limit, sum(length > limit for length in lengths)


def arguments(root: Path, longest: int) -> list[str]:
    where = [f"target.path={LLASA}", "target.name=llasa", f"codes={root / 'codes'}"]
    return [*where, f"target.rows.max_length={longest}", "dev_utterances=6", f"out={root / 'out'}"]


def test_a_draft_says_how_many_and_a_kill_loses_none(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    limit, expected = middle(tmp_path)
    assert 0 < expected < STEPS * SIZE
    options = [*arguments(tmp_path, limit), "layers=[0,1,3]", f"steps={STEPS}"]
    options += [f"batch_size={SIZE}", "save_every=2", "eval_every=5", "warmup=1"]
    with killed_before(3):
        assert main(options) == 130
    capsys.readouterr()
    assert main(options) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["cut_sequences"] == expected
    told = f"{expected} of {STEPS * SIZE} training sequences were longer than the target's rows"
    assert told in caplog.text


@pytest.mark.parametrize(
    ("options", "alone"),
    [(["sequences=12"], False), (["train_trunk=true", "joint.frames=40"], True)],
)
def test_heads_say_so_too(
    tmp_path: Path, options: list[str], alone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    limit, _ = middle(tmp_path, alone=alone)
    numbers = ["n=2", "steps=4", "batch_size=8", "eval_every=4"]
    assert train_heads([*arguments(tmp_path, limit), *numbers, *options]) == 0
    assert "sequences were longer than the target's rows may be" in caplog.text
