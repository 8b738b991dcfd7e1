"""Distributions that sst-own-codes keeps: equal to a pass, learnt by a draft, refused if wrong."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from own_store import LONG, make, names, read
from small_target import LAYOUT
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from speculative_tts.commands import train_draft
from speculative_tts.models.families.registry import load_layout
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.train import CodesFrom, TrainDraftConfig
from speculative_tts.training import objective, own
from speculative_tts.training.data.columns import StoredUtterance
from speculative_tts.training.data.pairs import (
    IGNORED,
    SequenceBatch,
    SequenceWriter,
    collate,
    load_data,
    write_rows,
)
from speculative_tts.training.laws import TopDistributions
from speculative_tts.training.losses import kl, tv
from speculative_tts.training.objective import Objective
from tests.fake_models import N_CODES, FakeModels, write_checkpoint

IDS = N_CODES + 1
ALL = N_CODES  # all but one token: as much of a law as is kept
HALF = 2**-11  # what half precision errs by, relatively
NEAR = {"atol": 1e-4, "rtol": 2 * HALF}


@pytest.fixture
def target(models: FakeModels) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(models.root / "target").eval()


@pytest.fixture
def draft(models: FakeModels) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(models.root / "draft").eval()


@pytest.fixture
def config(models: FakeModels, tmp_path: Path) -> TrainDraftConfig:
    return TrainDraftConfig(
        CheckpointConfig("fake", str(models.root / "target")),
        codes=str(tmp_path / "codes"),
        codes_from=CodesFrom.target,
        own=str(tmp_path / "own"),
        laws=True,
    )


@pytest.fixture
def speech_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads without rows of text, which at random have mass; a trained target gives them 1e-6."""

    def head(model: Any) -> Any:
        return lambda hidden: model.lm_head(hidden)[..., :IDS]

    monkeypatch.setattr(objective, "_head", head)


def batch_of(config: TrainDraftConfig, count: int = 8) -> SequenceBatch:
    return load_data(config, count, laws=config.laws).batch(range(count))


def loss(of: Objective, batch: SequenceBatch) -> float:
    return float(of(batch)[0].detach())


def shards(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names(folder)}


def by_a_pass(models: FakeModels, target: PreTrainedModel, row: Any, voice: list[int]) -> Tensor:
    """Logarithms of the laws of a voice's codes, a row's and its end, by transformers."""
    layout = load_layout(CheckpointConfig("fake", str(models.root / "target")))
    prompt = Prompt(row["text"], row["voice_text"], torch.tensor(voice, dtype=torch.int64))
    ids = [*layout.prompt_ids(prompt), *row["codes"]]
    with torch.no_grad():
        logits = target(torch.tensor([ids])).logits[0, -len(voice) - len(row["codes"]) - 1 :, :IDS]
    return logits.log_softmax(-1)


def test_laws_are_those_of_a_pass_over_the_same_tokens(
    models: FakeModels, tmp_path: Path, target: PreTrainedModel
) -> None:
    """To half precision and 1e-4; behind other codes of the voice they are not."""
    assert make(models, tmp_path, LONG, "laws=12") == 0
    rows = [row for name in names(tmp_path / "own") for row in read(tmp_path / "own" / name)]
    assert len(rows) > 5
    assert {bool(row["voice"]) for row in rows} == {True, False}  # one speaker says one thing
    for row in rows:
        ids, logs = (torch.tensor(row[name]).view(-1, 12) for name in ("law_ids", "law_logs"))
        law = by_a_pass(models, target, row, row["voice"])
        allowed = 1e-4 + HALF * law.abs()
        assert ((logs - law.gather(1, ids)).abs() <= allowed.gather(1, ids)).all()
        others = law.scatter(1, ids, -torch.inf)
        assert (others.amax(1) <= logs.amin(1) + 0.01).all()  # they are the likeliest
        torch.testing.assert_close(torch.tensor(row["law_rest"]), others.logsumexp(1), **NEAR)
        if row["voice"]:
            wrong = by_a_pass(models, target, row, [(code + 1) % N_CODES for code in row["voice"]])
            assert ((logs - wrong.gather(1, ids)).abs() > 10 * allowed.gather(1, ids)).any()


def test_a_killed_run_goes_on_and_repeats_byte_for_byte(
    models: FakeModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard is whole or absent; laws do not change what is said."""
    whole, cut = tmp_path / "whole", tmp_path / "own"
    settings = (LONG, "laws=4")
    assert make(models, tmp_path, *settings, f"out={whole}") == 0
    first = len(read(whole / "train-own-0000.parquet"))
    plain, calls = own.top_distributions, iter(range(100))

    def killed(*arguments: Any) -> TopDistributions:
        if next(calls) > first:
            raise KeyboardInterrupt
        return plain(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(own, "top_distributions", killed)
        assert make(models, tmp_path, *settings) == 130
    assert names(cut) == ["train-own-0000.parquet"]
    assert make(models, tmp_path, *settings) == 0
    assert shards(cut) == shards(whole)
    assert make(models, tmp_path, LONG, f"out={tmp_path / 'plain'}") == 0
    for name in names(whole):
        said = [row["codes"] for row in read(whole / name)]
        assert said == [row["codes"] for row in read(tmp_path / "plain" / name)]


@pytest.mark.usefixtures("speech_alone")
def test_a_loss_by_laws_is_the_targets_but_for_the_mass_of_the_others(
    models: FakeModels, tmp_path: Path, config: TrainDraftConfig, target: Any, draft: Any
) -> None:
    """KL is less by the mass x KL among the others, acceptance more by the mass at most.

    Distributions of the neighbouring positions are far from that.
    """
    assert make(models, tmp_path, LONG, "laws=12") == 0
    batch = batch_of(config)
    assert batch.laws is not None
    at = batch.targets != IGNORED
    q, p = (objective.speech_logits(one, batch.inputs, at).detach() for one in (target, draft))
    kept = batch.laws.at(at).logits(p)
    torch.testing.assert_close(kept.exp().sum(1), torch.ones(len(kept)), atol=3e-3, rtol=0)
    of_others = [one.scatter(1, batch.laws.at(at).ids, -100.0).log_softmax(-1) for one in (q, p)]
    mass = batch.laws.at(at).rest.exp()
    short = mass * kl(*of_others)
    assert short.mean() > 0.01  # there is something to fall short by
    torch.testing.assert_close(kl(q, p) - kl(kept, p), short, atol=5e-3, rtol=0)
    more = tv(q, p) - tv(kept, p)
    assert (more > -5e-3).all()
    assert (more < mass + 5e-3).all()
    alone, taught = Objective(draft, {"kl": 1.0}), Objective(draft, {"kl": 1.0}, lambda: target)
    whole, by_laws = loss(taught, replace(batch, laws=None)), loss(alone, batch)
    assert by_laws == pytest.approx(whole - float(short.sum()), abs=2e-3 * len(q))
    others = TopDistributions(*(part.roll(1, 1) for part in batch.laws.parts))
    both = at & ~others.rest.isnan()
    moved = replace(batch, targets=batch.targets.where(both, IGNORED))
    assert loss(alone, replace(moved, laws=others)) > 1.2 * loss(alone, moved)


def test_gradients_by_laws_are_those_of_the_likeliest_and_the_sum_of_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    q, p = torch.randn(2, 5, 30, generator=generator) * 3
    laws = TopDistributions.of(q, 6)
    ours, plain = p.clone().requires_grad_(), p.clone().requires_grad_()
    kl(laws.logits(ours), ours).sum().backward()

    def seven(logits: Tensor) -> Tensor:
        law = logits.log_softmax(-1)
        rest = law.scatter(1, laws.ids, -torch.inf).logsumexp(1, keepdim=True)
        return torch.cat([law.gather(1, laws.ids), rest], 1)

    kl(seven(q), seven(plain)).sum().backward()
    torch.testing.assert_close(ours.grad, plain.grad)
    assert TopDistributions.of(q, 99).ids.shape == (5, 29)


@pytest.mark.usefixtures("speech_alone")
def test_of_mixed_codes_the_target_runs_over_recorded_ones_alone(
    models: FakeModels, tmp_path: Path, config: TrainDraftConfig, target: Any, draft: Any
) -> None:
    assert make(models, tmp_path, LONG, f"laws={ALL}") == 0
    batch = batch_of(replace(config, codes_from=CodesFrom.mix), 14)
    assert batch.laws is not None
    lawful = (~batch.laws.rest.isnan()).any(1)
    assert 0 < int(lawful.sum()) < 14
    seen = []

    def watched(model: Any, inputs: Tensor, at: Tensor) -> Tensor:
        seen.append((model, len(inputs)))
        return plain(model, inputs, at)

    plain, asked = objective.speech_logits, Objective(draft, {"kl": 1.0}, lambda: target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objective, "speech_logits", watched)
        by_laws = loss(asked, batch)
    assert seen == [(draft, 14), (target, 14 - int(lawful.sum()))]
    assert by_laws == pytest.approx(loss(asked, replace(batch, laws=None)), rel=2e-3)


@pytest.mark.parametrize("longest", [None, 20, 9])
def test_laws_lie_beside_what_is_learnt(longest: int | None) -> None:
    """A row that is cut loses those of its end; a recorded one has none."""
    laws = TopDistributions(
        torch.arange(51).view(17, 3) % 20, torch.zeros(17, 3), torch.arange(17.0)
    )
    voice = StoredUtterance("alpha", [1, 2, 3, 4, 5])
    said = StoredUtterance("bravo", list(range(11)), laws=laws, voice=voice)
    write = partial(write_rows, LAYOUT, LAYOUT.eos_id, longest)
    whole, recorded = write(said.voice, said), write(None, StoredUtterance("alpha", [7] * 4))
    batch = collate([whole, recorded], SequenceWriter(write, LAYOUT.eos_id))
    assert batch.laws is not None
    learnt = batch.targets[0] != IGNORED
    assert torch.equal(~batch.laws.rest[0].isnan(), learnt)
    kept = batch.laws.rest[0][learnt].long().tolist()
    assert kept == list(range({None: 17, 20: 16, 9: 5}[longest]))
    ids = [*voice.codes, *said.codes, LAYOUT.eos_id]
    assert batch.targets[0][learnt].tolist() == ids[: len(kept)]
    assert batch.laws.rest[1].isnan().all()
    assert (batch.targets[1] != IGNORED).sum() == 5


def train(config: TrainDraftConfig, models: FakeModels, *settings: str) -> int:
    given = {"codes": config.codes, "own": config.own, "codes_from": "target", "laws": "true"}
    given |= {"out": f"{config.own}-draft", "target.path": config.target.path, "losses.kl": "1"}
    sizes = ["layers=[0,2]", "train_layers=1", "steps=2", "batch_size=4", "target.name=fake"]
    return train_draft.main([*sizes, *(f"{k}={v}" for k, v in given.items()), *settings])


@pytest.mark.parametrize("whose", ["target", "mix"])
def test_a_draft_is_trained_by_laws(
    models: FakeModels, tmp_path: Path, config: TrainDraftConfig, whose: str
) -> None:
    assert make(models, tmp_path, LONG, "laws=12") == 0
    assert train(config, models, f"codes_from={whose}") == 0
    assert (tmp_path / "own-draft/model.safetensors").is_file()


@pytest.mark.parametrize(
    ("kept", "settings", "message"),
    [
        ("null", (), "train-own-0000.parquet has no laws; make the codes with sst-own-codes laws="),
        ("12", ("codes_from=recorded",), "codes_from=recorded has no laws; give codes_from=target"),
        ("12", ("losses.kl=0",), "losses.ce reads no laws; give losses.kl=1 losses.ce=0"),
        ("12", ("target.path={other}",), "away from the target's (total variation, 0.2 at most)"),
    ],
)
def test_what_has_no_laws_or_anothers_is_refused(
    models: FakeModels,
    tmp_path: Path,
    config: TrainDraftConfig,
    capsys: pytest.CaptureFixture[str],
    kept: str,
    settings: tuple[str, ...],
    message: str,
) -> None:
    assert make(models, tmp_path, LONG, f"laws={kept}") == 0
    write_checkpoint(tmp_path / "other", layers=3)
    assert train(config, models, *(one.format(other=tmp_path / "other") for one in settings)) == 2
    assert message in capsys.readouterr().err


def test_laws_of_a_head_with_rows_of_text_are_refused(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a row would be drawn, lack in the codes, and move every law behind it."""
    assert make(models, tmp_path, "laws=4", "sampling.text_rows=true") == 2
    assert "give sampling.text_rows=false, or leave laws out" in capsys.readouterr().err
