"""Optimise matrices by Muon and all other parameters by AdamW.

Muon (Jordan et al. 2024) makes each momentum matrix nearly orthogonal before stepping.  torch's
own iterates in bfloat16, which CPUs without AMX do slowly; this one also stacks equal shapes.
"""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration, from Jordan et al."""


def orthogonalise(
    matrices: Float[Tensor, "n rows columns"], iterations: int = 5
) -> Float[Tensor, "n rows columns"]:
    """Move the singular values of each matrix to about 1."""
    a, b, c = NEWTON_SCHULZ
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    restored: Tensor = x.mT if tall else x
    return restored


class Muon(torch.optim.Optimizer):
    """Step by orthogonalised momentum, scaled to AdamW's usual root mean square (0.2)."""

    def __init__(
        self, params: Iterable[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """Do one step for every matrix that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for param in group["params"]:
                if param.grad is not None:
                    shapes.setdefault(param.shape, []).append(param)
            for params in shapes.values():
                self._step_shape(params, group["lr"], group["momentum"], group["weight_decay"])

    def _step_shape(
        self, params: list[Tensor], lr: float, momentum: float, weight_decay: float
    ) -> None:
        updates = []
        for param in params:
            state = self.state[param]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(param)
            grad = param.grad
            assert grad is not None
            state["momentum"].lerp_(grad, 1 - momentum)
            updates.append(grad.lerp(state["momentum"], momentum))
        scale = 0.2 * max(params[0].shape) ** 0.5
        for param, update in zip(params, orthogonalise(torch.stack(updates)), strict=True):
            param.mul_(1 - lr * weight_decay).add_(update, alpha=-lr * scale)


def adamw(
    params: Iterable[Tensor] | Iterable[dict[str, Any]], lr: float, weight_decay: float
) -> torch.optim.Optimizer:
    """Return AdamW with the betas that all trainings here use."""
    return torch.optim.AdamW(params, lr=lr, betas=(0.9, 0.95), weight_decay=weight_decay)
