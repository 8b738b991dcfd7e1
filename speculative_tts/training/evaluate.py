"""Dev figures of a draft, summed over data-parallel processes."""

from collections.abc import Sequence

import torch
from accelerate import Accelerator
from torch import Tensor

from speculative_tts.training.objective import Batch, Objective, Sampler, expected_acceptance


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
