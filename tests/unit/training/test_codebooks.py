"""Steps for a talker's frozen heads: trained on what it says, they make its drafts better."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from csm_folders import save, talker

from speculative_tts.commands import train_heads
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.codebooks import CodebooksDrafter
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.codebook_offsets import load_offsets
from speculative_tts.models.families.csm.lm import CsmLM
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.train import HeadKind, LossConfig, TrainHeadsConfig
from speculative_tts.training.codebooks import codebook_trunk
from speculative_tts.training.data.pairs import load_data

BOOKS, CODES, FRAMES, LOOKAHEAD = 7, 6, 6, 2
TEXTS = ("Nine boats.", "Stay.", "The ferry leaves at seven.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("talker"), talker(BOOKS, CODES, seed=5, scale=0.45))


@pytest.fixture(scope="module")
def target(folder: Path) -> CsmLM:
    given = CheckpointConfig(name="csm", path=str(folder))
    return CsmLM.load(given, dtype=torch.float32, device=torch.device("cpu"))


def requests(target: CsmLM, name: str, count: int) -> list[Request]:
    prompts = [target.prompt(target.prompt_ids(Prompt(text))) for text in TEXTS]
    most = BOOKS * FRAMES
    return [Request(f"{name}{n}", prompts[n % 3], None, 0, most, 0) for n in range(count)]


@pytest.fixture(scope="module")
def codes(target: CsmLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whole frames that the talker said, drawn from its own distribution."""
    place = tmp_path_factory.mktemp("codes")
    for split, count in (("train", 60), ("dev", 12)):
        given = requests(target, split, count)
        said = autoregressive(target, target.layout.stop_ids, Sampler(1.0), given)
        rows = [
            {
                "id": f"{split}{n}",
                "speaker": "s",
                "split": split,
                "text": TEXTS[n % 3],
                "codes": one.tokens[: len(one.tokens) // BOOKS * BOOKS],
            }
            for n, one in enumerate(said)
        ]
        whole = [row for row in rows if row["codes"]]
        pq.write_table(pa.Table.from_pylist(whole), place / f"{split}-0000.parquet")
    return place


def accepted(target: CsmLM, drafter: CodebooksDrafter) -> float:
    """Return the share of the drafted codes that are accepted."""
    sampler, stops = Sampler(1.0, slots=target.layout.slots), target.layout.stop_ids
    made = Speculation(target, drafter, Tolerance(0.0), sampler, stops, LOOKAHEAD)
    counts = [one.counts for one in made.decode(requests(target, "test", 40))]
    return sum(one.accepted for one in counts) / sum(one.drafted for one in counts)


def settings(folder: Path, codes: Path) -> TrainHeadsConfig:
    return TrainHeadsConfig(
        CheckpointConfig(name="csm", path=str(folder)), codes=str(codes), kind=HeadKind.codebooks,
        n=3, losses=LossConfig(kl=1.0, ce=0.0), sequences=10,
    )  # fmt: skip


def test_a_step_is_compared_with_the_talker_where_it_drafts(
    folder: Path, codes: Path, target: CsmLM
) -> None:
    """Before any training the draft of codebook t + i is head t + i on the state of t."""
    config = settings(folder, codes)
    trunk, batch = codebook_trunk(config), load_data(config, 4).batch([0])
    states = trunk.states(batch)
    frames = states.targets.long()
    learnt = batch.targets[batch.targets >= 0][:-1]
    assert torch.equal(frames + CODES * torch.arange(BOOKS), learnt.view(-1, BOOKS))
    own = states.hidden.view(len(frames), BOOKS - 1, -1)
    for step, (logits, wanted, behind) in enumerate(trunk.steps(states), start=1):
        at, places = 0, range(1, BOOKS - 1 - step)
        for frame, row in enumerate(frames):
            for book in places:
                head = target.weights.heads[book + step].dense().float()
                torch.testing.assert_close(logits[at], own[frame, book - 1] @ head)
                torch.testing.assert_close(behind[at], own[frame, book - 1 + step] @ head)
                assert wanted[at] == row[book + step]
                at += 1
        assert at == len(wanted)


def test_training_makes_more_drafts_pass(
    folder: Path, codes: Path, target: CsmLM, tmp_path: Path
) -> None:
    """In the real loop, beside the frozen heads alone."""
    out = tmp_path / "steps"
    given = [
        *("target=csm", f"target.path={folder}", f"codes={codes}", f"out={out}"),
        *("kind=codebooks", "n=3", "losses.kl=1", "losses.ce=0", "steps=150", "batch_size=128"),
        *("warmup=5", "learning_rate=0.02", "sequences=60", "eval_every=150"),
    ]
    assert train_heads.main(given) == 0
    offsets = load_offsets(out, folder, target.depth.config.hidden, BOOKS)
    assert offsets.n == LOOKAHEAD
    plain, trained = (
        accepted(target, CodebooksDrafter(target, steps)) for steps in (None, offsets)
    )
    assert np.isfinite([plain, trained]).all()
    assert trained > plain + 0.1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("n=6", "n 6 is above 5: of 7 codes a frame, 0, 1 and the last are no drafts; lower n"),
        ("train_trunk=true", "train_trunk is not of kind=codebooks; leave it out"),
        ("optimiser=muon", "optimiser=muon is not of kind=codebooks"),
    ],
)
def test_settings_of_other_kinds_are_refused(
    asked: str, message: str, folder: Path, codes: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    given = ["target=csm", f"target.path={folder}", f"codes={codes}", f"out={tmp_path / 'x'}"]
    assert train_heads.main([*given, "kind=codebooks", "n=3", asked]) == 2
    assert message in capsys.readouterr().err


def test_other_targets_have_no_codebooks(
    codes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"codes={codes}", f"out={tmp_path / 'x'}", "kind=codebooks"]
    assert train_heads.main(given) == 2
    assert "kind=codebooks is of targets with a depth decoder, which" in capsys.readouterr().err
