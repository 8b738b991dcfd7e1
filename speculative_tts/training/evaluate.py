"""Dev figures of a draft, summed over data-parallel processes."""

import logging
from collections.abc import Sequence

import torch
from accelerate import Accelerator
from torch import Tensor
from transformers import PreTrainedModel

from speculative_tts.training.data.recordings import IGNORED
from speculative_tts.training.objective import (
    Batch,
    Objective,
    Sampler,
    expected_acceptance,
    speech_logits,
)

FAMILIAR = 0.5  # nats by which a codec's own codes are likelier in their places than anywhere

logger = logging.getLogger(__name__)


def dev_figures(
    objective: Objective,
    batches: Sequence[Batch],
    accelerator: Accelerator,
    sampler: Sampler | None = None,
) -> dict[str, float]:
    """Mean loss (nats), token accuracy and, with a `sampler`, expected acceptance.

    Processes take batches in turn; every process gets the same figures.
    """
    sums = torch.zeros(4, dtype=torch.float64)
    for batch in batches[accelerator.process_index :: accelerator.num_processes]:
        sums += _batch_sums(objective, batch.to(accelerator.device), accelerator, sampler)
    total = accelerator.reduce(sums.to(accelerator.device), "sum").cpu()
    loss, correct, accepted, count = total.tolist()
    figures = {"dev_loss": loss / count, "dev_accuracy": correct / count}
    return figures | {"dev_acceptance": accepted / count} if sampler else figures


@torch.no_grad()
def _batch_sums(
    objective: Objective, batch: Batch, accelerator: Accelerator, sampler: Sampler | None
) -> Tensor:
    with accelerator.autocast():
        sums = objective(batch.inputs, batch.targets)
        accepted = 0.0
        if sampler:
            accepted, _ = expected_acceptance(objective.target, objective.draft, batch, sampler)
    values = [float(sums["loss"]), float(sums["correct"]), accepted, float(sums["count"])]
    return torch.tensor(values, dtype=torch.float64)


@torch.no_grad()
def warn_of_other_codes(target: PreTrainedModel, batch: Batch) -> None:
    """Say so when codes are no likelier to the target than the same codes in random order.

    Another codec's codes are as good as renumbered. Measured on 20 recordings with the tiny target:
    its own codes cost 2.0 nats each (11.8 in random order), renumbered ones 11.7 (11.6), another
    codec's 11.4 (11.5).
    """
    at = batch.targets != IGNORED
    codes = batch.targets[at]
    laws = speech_logits(target, batch.inputs, at).float().log_softmax(-1)
    in_place = -float(laws.gather(1, codes[:, None]).mean())
    anywhere = -float(laws[:, codes].mean())
    if in_place > anywhere - FAMILIAR:
        logger.warning(
            "the target finds these codes no likelier than in random order (%.1f and %.1f nats "
            "each): if it is trained, they are another codec's; give codes=<folder> of its own",
            in_place,
            anywhere,
        )
