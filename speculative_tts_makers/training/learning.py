"""Choose rates and optimisers of the tiny targets: Muon for the trunk's matrices."""

from torch import nn
from torch.optim import Optimizer

from speculative_tts.training.optimiser import Muon, adamw
from speculative_tts.training.schedule import Rate


def trapezoid(*, warmup: int, decay: int) -> Rate:
    """Return a rate that rises linearly, stays, and falls to zero over the last `decay` steps."""

    def rate(base: float, step: int, steps: int) -> float:
        rise = min(1.0, (step + 1) / max(1, warmup))
        return base * max(0.0, min(rise, (steps - step) / max(1, decay)))

    return rate


def muon_and_adamw(
    model: nn.Module, extras: nn.Module, rates: tuple[float, float], weight_decay: float
) -> list[Optimizer]:
    """Return AdamW at the second rate, but for the trunk's matrices Muon at the first.

    `extras` are trained along with the model and thrown away.
    """
    matrices, others = split_parameters(model)
    matrix_lr, other_lr = rates
    return [
        adamw([*others, *extras.parameters()], other_lr, weight_decay),
        Muon(matrices, lr=matrix_lr, weight_decay=weight_decay),
    ]


def split_parameters(module: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return (matrices inside the trunk, everything else), for Muon and for AdamW.

    The matrices of VALL-E's adaptive norms see one vector per stage: orthogonalising their gradient
    of rank one would make noise.
    """
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, param in module.named_parameters():
        is_matrix = param.ndim == 2 and ".layers." in name and "project_layer" not in name
        (matrices if is_matrix else others).append(param)
    return matrices, others
