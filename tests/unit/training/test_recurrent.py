"""The recurrent layer in training: it learns, each of its steps beside the target's own."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch

from speculative_tts.commands.train_heads import main
from speculative_tts.models.families.registry import load_layout
from speculative_tts.models.heads import target_hash
from speculative_tts.models.recurrent import read_layer
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.train import TrainHeadsConfig
from speculative_tts.training.data.pairs import load_data
from speculative_tts.training.draft import speech_sampler
from speculative_tts.training.headed import States, head_targets, states_of
from speculative_tts.training.losses import mix
from speculative_tts.training.recurrent import RecurrentTrunk, StepLosses, TrainableRecurrence
from speculative_tts.training.trunk import load_trunk

STOP = 24
RECURRENT = [
    "kind=recurrent",
    "width=40",
    "blocks=2",
    "steps=60",
    "learning_rate=0.02",
    "eval_every=60",
]


@pytest.mark.parametrize(("loss", "optimiser"), [("ce", "adamw"), ("kl", "muon"), ("lk", "adamw")])
def test_a_recurrent_layer_learns_and_belongs_to_its_target(
    arguments: list[str],
    tmp_path: Path,
    loss: str,
    optimiser: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two steps; the target is frozen, its head and embedding are used as they are."""
    out, found = tmp_path / "layer", {}
    weights = [f"losses.{name}={float(name == loss)}" for name in {"ce", loss}]
    for rate in ("1e-9", "0.02"):
        chosen = [f"optimiser={optimiser}", f"learning_rate={rate}", f"out={out}{rate}"]
        given = [*arguments, *RECURRENT, *weights, *chosen]
        assert main(given) == 0
        found[rate] = json.loads(capsys.readouterr().out.splitlines()[-1])
    untrained, trained = found.values()
    assert trained["dev_loss"] < 0.98 * untrained["dev_loss"]
    assert len(trained["dev_accuracies"]) == len(trained["dev_acceptances"]) == 2
    if loss == "lk":
        assert sum(trained["dev_acceptances"]) > sum(untrained["dev_acceptances"]) + 0.02
    tensors, description = read_layer(Path(f"{out}0.02"))
    assert [description[size] for size in ("hidden", "width", "blocks")] == [16, 40, 2]
    assert description["target"] == target_hash(Path(arguments[0].partition("=")[2]))
    assert {part.dtype for block in tensors.blocks for part in block} == {torch.float16}
    assert tensors.frequent is not None
    assert tensors.frequent[0] != tensors.frequent[-1]
    assert sorted(tensors.frequent.tolist()) == list(range(STOP + 1))


def test_each_step_is_compared_with_the_target_at_its_position(target: Path, codes: Path) -> None:
    """A layer that makes the target's own states loses nothing; nothing behind the end counts."""
    checkpoint = CheckpointConfig(name="small", path=str(target))
    trunk = load_trunk(checkpoint)
    batch = load_data(TrainHeadsConfig(checkpoint, str(codes), dev_utterances=1), 1).dev[0]
    states = states_of(trunk, batch, 3)
    hidden, said = states.hidden, states.targets[:, 0]
    layout = load_layout(checkpoint)
    module = RecurrentTrunk(
        trunk,
        3,
        TrainableRecurrence(16, 8, 1),
        StepLosses(partial(mix, {"kl": 1.0}), speech_sampler(layout), own_drafts=False),
    )
    fed: list[int] = []

    class Cheating(torch.nn.Module):
        def forward(self, before: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            step = len(fed) + 1
            fed.append(len(before))
            return hidden[(torch.arange(len(before)) + step).clamp(max=len(hidden) - 1)]

    module.layer = Cheating()  # type: ignore[assignment]
    everywhere = states.at(slice(None), module.ahead)
    loss, _ = module(everywhere)
    fed.clear()
    sums = module.dev_sums(everywhere)
    assert int(said[-1]) == STOP
    assert sums[:, 3].tolist() == [len(said) - 1, len(said) - 2]  # one less a step: the end
    torch.testing.assert_close(loss.detach(), torch.tensor(0.0), rtol=0, atol=1e-4)
    torch.testing.assert_close(sums[:, 2], sums[:, 3], rtol=1e-4, atol=0)
    cut = States(hidden[:-1], head_targets(said[None, :-1].long(), 3, STOP)[0])
    fed.clear()
    assert module.dev_sums(cut.at(slice(None), module.ahead))[:, 3].tolist() == [
        len(said) - 2,
        len(said) - 3,
    ]


def test_steps_are_learnt_as_often_as_own_drafts_come_to_them(target: Path) -> None:
    """By enumeration of the target's tokens: what drafts of the layer, verified, would give."""
    trunk = load_trunk(CheckpointConfig(name="small", path=str(target)))
    vocab = len(trunk.weight)

    def sampler(logits: torch.Tensor) -> torch.Tensor:
        least = logits.topk(12).values[:, -1:]
        return logits.where(logits >= least, -torch.inf).softmax(-1)

    torch.manual_seed(1)
    kl = partial(mix, {"kl": 1.0})
    hidden = torch.randn(1, 3, 16).repeat(vocab, 1, 1)
    hidden[:, 2] = torch.randn(vocab, 16)  # what the target knows behind each token
    said = torch.tensor([3, 0, 0]).repeat(vocab, 1)
    said[:, 1] = torch.arange(vocab)
    weighted, plain = (
        RecurrentTrunk(trunk, 3, TrainableRecurrence(16, 8, 2), StepLosses(kl, sampler, own))
        for own in (True, False)
    )
    for name, parameter in plain.layer.named_parameters():
        if name.endswith("out.weight"):
            torch.nn.init.normal_(parameter, std=0.3)
    weighted.load_state_dict(plain.state_dict())

    def losses(module: RecurrentTrunk) -> torch.Tensor:
        positions = [States(hidden[x : x + 1], said[x : x + 1]) for x in range(vocab)]
        return torch.stack([module(one)[0] for one in positions]).detach()

    _, (drafts, _, known) = next(plain.steps(States(hidden[:1], said[:1])))
    p, q = (sampler(trunk.own(of).detach())[0] for of in (drafts, known))
    first = losses(plain)[STOP]  # nothing is drafted behind the end
    behind = losses(plain) - first
    drafted = (p * (q / p).clamp(max=1).nan_to_num() * behind).sum()
    torch.testing.assert_close((q * (losses(weighted) - first)).sum(), drafted, rtol=1e-4, atol=0)
    assert abs(float((q * behind).sum() - drafted)) > 0.1 * float(drafted)  # not any weights do
    recorded = (q == 0) & (torch.arange(vocab) != STOP)
    assert recorded.any()  # and what the target never says has none
    torch.testing.assert_close(losses(weighted)[recorded], first.expand(int(recorded.sum())))
