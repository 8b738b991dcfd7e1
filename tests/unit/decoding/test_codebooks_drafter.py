"""Frozen heads that draft the codes of a frame: where drafts end, and the passes they save."""

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from csm_folders import save, talker
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.codebooks import CodebooksDrafter
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.codebook_offsets import CodebookOffsets, load_offsets
from speculative_tts.models.decoder.decoder import Decoder
from speculative_tts.models.families.csm.lm import CsmLM
from speculative_tts.models.prompt import Prompt
from speculative_tts.records import Counts
from speculative_tts.schema.common import CheckpointConfig

BOOKS, FRAMES = 8, 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(tmp_path / "model", talker(BOOKS, 5))


@pytest.fixture
def target(folder: Path) -> CsmLM:
    given = CheckpointConfig(name="csm", path=str(folder))
    return CsmLM.load(given, dtype=torch.float32, device=torch.device("cpu"))


def offsets(n: int = 3, hidden: int = 16, books: int = BOOKS) -> CodebookOffsets:
    """Return random steps."""
    generator = torch.Generator().manual_seed(1)
    shapes = (n, 6, 2 * hidden), (n, books, 6), (n, hidden, 6)
    return CodebookOffsets(*(0.3 * torch.randn(shape, generator=generator) for shape in shapes))


def decoded(target: CsmLM, drafter: CodebooksDrafter, rows: int, lookahead: int) -> list[Outcome]:
    prompt = target.prompt(target.prompt_ids(Prompt("Nine boats.")))
    given = [Request(str(row), prompt, None, 0, BOOKS * FRAMES, 0) for row in range(rows)]
    sampler, stops = Sampler(0.8, slots=target.layout.slots), target.layout.stop_ids
    return Speculation(target, drafter, Tolerance(0.0), sampler, stops, lookahead).decode(given)


def test_each_frame_is_one_pass_of_the_backbone(
    target: CsmLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafts leave a frame's last code out: with it a rejected code would cost a backbone pass."""
    passes: Counter[str] = Counter()
    real = Decoder.extend

    def counted(self: Decoder, inputs: Tensor, *given: object, **named: object) -> Tensor:
        passes["backbone" if self is target.backbone else "depth"] += 1
        return real(self, inputs, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Decoder, "extend", counted)
    (one,) = decoded(target, CodebooksDrafter(target, offsets()), 1, 3)
    counts, ended = one.counts, one.stopped
    assert passes["backbone"] == len(one.tokens) // BOOKS + ended
    assert passes["depth"] == counts.rounds - passes["backbone"] + 1
    assert passes["depth"] == (BOOKS - 1) * FRAMES - counts.accepted
    assert 0 < counts.accepted < counts.drafted


def test_a_batch_is_its_rows(target: CsmLM) -> None:
    drafter = CodebooksDrafter(target, offsets())
    together = decoded(target, drafter, 5, 3)
    assert len({tuple(one.tokens) for one in together}) > 1
    prompt = target.prompt(target.prompt_ids(Prompt("Nine boats.")))
    sampler, stops = Sampler(0.8, slots=target.layout.slots), target.layout.stop_ids
    made = Speculation(target, drafter, Tolerance(0.0), sampler, stops, 3)
    for row, one in enumerate(together):
        request = Request(str(row), prompt, None, 0, BOOKS * FRAMES, 0)
        (alone,) = made.decode([request])
        assert (alone.tokens, alone.counts) == (one.tokens, one.counts)


def test_without_offsets_a_head_reads_the_state_as_it_is(target: CsmLM) -> None:
    still = offsets()
    still.out.zero_()

    def said(given: CodebookOffsets | None) -> list[tuple[list[int], Counts]]:
        made = decoded(target, CodebooksDrafter(target, given), 2, 3)
        return [(one.tokens, one.counts) for one in made]

    assert said(None) == said(still)
    assert said(None) != said(offsets())


def test_offsets_are_read_as_they_were_written(folder: Path, tmp_path: Path) -> None:
    made, place = offsets(), tmp_path / "offsets"
    made.save(place, target=folder)
    read = load_offsets(place, folder, 16, BOOKS)
    torch.testing.assert_close((read.inner, read.bias, read.out), (made.inner, made.bias, made.out))
    with pytest.raises(ValueError, match=r"is not readable .* kind=codebooks again"):
        load_offsets(place, folder, 16, BOOKS + 1)
    other = save(tmp_path / "other", talker(BOOKS, 5, seed=2))
    with pytest.raises(ValueError, match="drafts for another target"):
        load_offsets(place, other, 16, BOOKS)
    about = json.loads((place / "codebooks.json").read_text())
    (place / "codebooks.json").write_text(json.dumps(about | {"format": 2}))
    with pytest.raises(ValueError, match="is not readable"):
        load_offsets(place, folder, 16, BOOKS)
    with pytest.raises(ValueError, match="make it with sst-train-heads kind=codebooks"):
        load_offsets(tmp_path, folder, 16, BOOKS)
