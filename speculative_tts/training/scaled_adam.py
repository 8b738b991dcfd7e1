"""Implement ScaledAdam, the optimiser of the public VALL-E recipe (from icefall).

ScaledAdam is Adam whose step is relative: it is multiplied by the parameter's root mean square, so
that the same learning rate (0.05) serves every matrix. A second Adam-like step, every fourth
update, learns the overall size of the parameter. Checked on a trajectory of the official classes.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

SIZE_PERIOD = 4  # updates between changes of a parameter's size
SCALAR_RATE = 0.1  # share of the learning rate for sizes and for parameters of one element
SMALLEST_RMS, LARGEST_RMS, LARGEST_SCALAR = 1e-5, 3.0, 10.0
EPS = 1e-8


class ScaledAdam(torch.optim.Optimizer):
    """Adam with relative steps; gradients are clipped at `clipping_scale` x their median norm.

    As in the official class, only the gradients of sizes are clipped.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.05,
        betas: tuple[float, float] = (0.9, 0.95),
        *,
        clipping_scale: float | None = 2.0,
        clipping_update_period: int = 1000,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "clipping_scale": clipping_scale,
            "clipping_update_period": clipping_update_period,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            scale = self._clipping(group, params)
            for p in params:
                state = self.state[p]
                if not state:
                    _start(p, state)
                _update(p, state, group, scale)

    def _clipping(self, group: dict[str, Any], params: list[Tensor]) -> float:
        """Return the clipping factor: a multiple of the last period's median norm over the norm."""
        first = self.state[params[0]]
        step = int(first.get("step", 0))
        if group["clipping_scale"] is None or step == 0:
            return 1.0
        period = int(group["clipping_update_period"])
        squares = [(_grad(p) * self.state[p].get("rms", 1.0)).square().sum() for p in params]
        norm = torch.stack(squares).sum().sqrt()
        if "norms" not in first:
            first["norms"] = torch.zeros(period, device=norm.device)
        first["norms"][step % period] = norm
        if step % period == 0:
            middle = first["norms"].sort().values[min(period - 1, period // 4 * 2)]
            first["threshold"] = float(group["clipping_scale"] * middle)
        if step < period:
            return 1.0
        return min(1.0, float(first["threshold"]) / (float(norm) + 1e-20))


def _grad(p: Tensor) -> Tensor:
    assert p.grad is not None
    return p.grad


def _start(p: Tensor, state: dict[str, Any]) -> None:
    state["step"] = 0
    state["delta"] = torch.zeros_like(p)
    state["square"] = torch.zeros_like(p)
    if p.numel() > 1:
        state["rms"] = p.square().mean().sqrt()
        state["size_square"] = torch.zeros_like(state["rms"])
        state["size_grads"] = p.new_zeros(SIZE_PERIOD)


def _update(p: Tensor, state: dict[str, Any], group: dict[str, Any], scale: float) -> None:
    state["delta"].mul_(group["betas"][0])
    if p.numel() == 1:
        _scalar_step(p, state, group)
    else:
        place = state["step"] % SIZE_PERIOD
        state["size_grads"][place] = (p * _grad(p) * scale).sum()
        if place == SIZE_PERIOD - 1:
            state["rms"] = p.square().mean().sqrt()
            _size_step(p, state, group)
        _step(p, state, group)
    state["step"] += 1


def _size_step(p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Grow or shrink the parameter as a whole, through its momentum."""
    beta1, beta2 = group["betas"]
    rate, decay = group["lr"] * SCALAR_RATE, beta2**SIZE_PERIOD
    grads = state["size_grads"]
    state["size_square"].mul_(decay).add_(grads.square().mean(), alpha=1 - decay)
    correction = 1 - decay ** ((state["step"] + 1) // SIZE_PERIOD)
    change = -rate * correction**0.5 * grads.sum() / (state["size_square"].sqrt() + EPS)
    change = change.masked_fill(state["rms"] < SMALLEST_RMS, 0.0)
    change = change.masked_fill(state["rms"] > LARGEST_RMS, -rate * SIZE_PERIOD)
    state["delta"].add_(p * change, alpha=1 - beta1)


def _step(p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    beta1, beta2 = group["betas"]
    grad, square = _grad(p), state["square"]
    square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    correction = 1 - beta2 ** (state["step"] + 1)
    if correction < 0.99:
        square = square / correction
    rate = group["lr"] * (1 - beta1) * state["rms"].clamp(min=SMALLEST_RMS)
    state["delta"].sub_(grad / (square.sqrt() + EPS) * rate)
    p.add_(state["delta"])


def _scalar_step(p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Update by plain Adam without correction of the momentum."""
    beta1, beta2 = group["betas"]
    grad, square = _grad(p), state["square"]
    square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    denominator = (square / (1 - beta2 ** (state["step"] + 1))).sqrt() + EPS
    state["delta"].sub_(grad / denominator, alpha=group["lr"] * SCALAR_RATE * (1 - beta1))
    p.clamp_(-LARGEST_SCALAR, LARGEST_SCALAR)
    p.add_(state["delta"])
