"""The loop on a toy: resumed at any step, batches added up, the best kept, bad states told."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from tqdm import tqdm

from speculative_tts.records import read_jsonl
from speculative_tts.schema.common import Device
from speculative_tts.training import loop
from speculative_tts.training.devices import accelerator_for
from speculative_tts.training.loop import Learning, Training, TrainingPlan, Values
from speculative_tts.training.optimiser import Muon, adamw
from speculative_tts.training.schedule import cosine
from speculative_tts.training.state import Best, State, load_state, save_state

PLAN = TrainingPlan(steps=7, save_every=2, eval_every=3)
Batch = tuple[Tensor, Tensor]


class Fit(nn.Module):
    """A linear map; the sum of its squared errors."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 3)

    def forward(self, batch: Batch) -> tuple[Tensor, Values]:
        inputs, wanted = batch
        errors = (self.layer(inputs) - wanted).square()
        return errors.sum(), {"errors": errors.sum(0)}


class Toy(Training):
    """Rows of a batch are numbered on; values are worse at every second evaluation."""

    selects: str | None = "value"

    def __init__(
        self, folder: Path, plan: TrainingPlan = PLAN, rows: int = 4, width: int = 4
    ) -> None:
        torch.manual_seed(0)
        module = Fit(width)
        named = dict(module.named_parameters())
        optimizers = [
            adamw([named["layer.bias"]], 0.01, 0.0),
            Muon([named["layer.weight"]], 0.02),
        ]
        learning = Learning(module, named, optimizers, cosine(warmup=2))
        super().__init__(folder, plan, learning, accelerator_for(Device.cpu))
        self.rows, self.width, self.evaluations = rows, width, 0

    def batch(self, step: int, number: int) -> Batch:
        def row(index: int) -> Tensor:
            return torch.randn(self.width, generator=torch.Generator().manual_seed(index))

        inputs = torch.stack([row(number * self.rows + i) for i in range(self.rows)])
        return inputs, inputs[:, :3] ** 2

    def weight(self, batch: Batch) -> float:
        return len(batch[0])

    def evaluate(self) -> dict[str, float]:
        self.evaluations += 1
        return {"value": float(self.step if self.step != 6 else -1)}


def stop_after(rows: int) -> Callable[[dict[str, object]], None]:
    count = 0

    def killed(row: dict[str, object]) -> None:
        nonlocal count
        count += 1
        if count > rows:
            raise KeyboardInterrupt

    return killed


@pytest.mark.parametrize("rows", range(11))
def test_resumed_at_any_row_it_ends_as_undisturbed(tmp_path: Path, rows: int) -> None:
    whole = Toy(tmp_path / "whole")
    whole.run()
    with pytest.raises(KeyboardInterrupt):
        Toy(tmp_path / "cut").run(stop_after(rows))
    resumed = Toy(tmp_path / "cut")
    resumed.run()
    assert all(torch.equal(p, whole.parameters[n]) for n, p in resumed.parameters.items())
    logs = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("whole", "cut")]
    assert logs[0] == logs[1]
    assert whole.best is not None
    assert resumed.best is not None
    assert (
        (resumed.best.step, resumed.figures)
        == (whole.best.step, whole.figures)
        == (7, {"value": 7})
    )


def test_a_complete_training_evaluates_nothing_again(tmp_path: Path) -> None:
    Toy(tmp_path).run()
    again = Toy(tmp_path)
    again.run()
    assert (again.step, again.figures, again.evaluations) == (7, {"value": 7.0}, 0)


def test_batches_that_are_added_up_are_one_batch(tmp_path: Path) -> None:
    one, added = Toy(tmp_path / "one"), Toy(tmp_path / "added", rows=2)
    added.plan = dataclasses.replace(PLAN, accumulate=2)
    for training in (one, added):
        training.run()
    for name, value in one.parameters.items():
        torch.testing.assert_close(added.parameters[name], value, rtol=0, atol=1e-6)
    rows = [list(read_jsonl(tmp_path / name / "metrics.jsonl")) for name in ("one", "added")]
    for first, second in zip(*rows, strict=True):
        assert first == {key: pytest.approx(value, rel=1e-5) for key, value in second.items()}
    assert len(rows[0][1]["errors"]) == 3


def test_the_best_evaluation_comes_back(tmp_path: Path) -> None:
    """The last but one is the best here: the sixth step's is the worst, the plan ends there."""
    training = Toy(tmp_path, dataclasses.replace(PLAN, steps=6))
    training.run()
    last = {name: p.detach().clone() for name, p in training.parameters.items()}
    best = training.take_best()
    assert (best.step, best.value) == (3, 3.0)
    assert not any(torch.equal(p, last[name]) for name, p in training.parameters.items())


def test_one_process_keeps_the_best_parameters(tmp_path: Path) -> None:
    """Every rank kept its own copy on the CPU: eight times 34 GB beside eight GPUs."""
    Toy(tmp_path).run()
    other = Toy(tmp_path)
    other.accelerator = SimpleNamespace(is_main_process=False, wait_for_everyone=lambda: None)
    other.run()
    assert other.best is not None
    assert (other.best.step, other.best.parameters) == (7, {})
    assert other.copies() == {}


def test_a_loss_that_is_no_number_is_told(tmp_path: Path) -> None:
    training = Toy(tmp_path)
    with torch.no_grad():
        training.parameters["layer.bias"][0] = torch.nan
    with pytest.raises(ValueError, match=r"loss is nan, its gradient nan at step 1; lower"):
        training.run()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"state"])
def test_a_broken_state_is_named(tmp_path: Path, content: bytes) -> None:
    Toy(tmp_path).run()
    newest = max(tmp_path.glob("state-*.pt"))
    newest.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"state-00000007.pt is broken or no .*; delete it"
    ) as error:
        Toy(tmp_path).run()
    assert "\n" not in str(error.value)
    newest.unlink()
    resumed = Toy(tmp_path)
    resumed.run()
    assert resumed.step == 7


@pytest.mark.parametrize("other", [{"step": 3}, [1, 2], torch.zeros(3)])
def test_another_file_is_no_state(tmp_path: Path, other: object) -> None:
    torch.save(other, tmp_path / "state-00000001.pt")
    with pytest.raises(ValueError, match="no training state; delete it"):
        load_state(tmp_path)


def test_a_state_of_another_model_is_told(tmp_path: Path) -> None:
    Toy(tmp_path).run()
    with pytest.raises(ValueError, match="is of another model; give another out"):
        Toy(tmp_path, width=5).run()


def test_two_states_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_state(tmp_path, State(step, {}, [], {}, Best(0, 0.5, {})))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "state-00000002.pt",
        "state-00000003.pt",
    ]


class Slow(Toy):
    """What batches share is made once, with the clock at 100."""

    now = 0.0

    def ready(self) -> None:
        Slow.now += 100


def test_what_batches_share_is_no_step_of_the_time_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[float] = []

    def noted(total: int, **_options: object) -> Any:
        begun.append(Slow.now)
        return tqdm(total=total, disable=True)

    monkeypatch.setattr(loop, "progress", noted)
    Slow(tmp_path).run()
    assert begun == [100.0]
