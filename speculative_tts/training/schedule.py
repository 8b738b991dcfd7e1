"""Define learning rates as functions: (base rate, steps done, steps in all) -> rate of the next."""

import math
from collections.abc import Callable

Rate = Callable[[float, int, int], float]


def cosine(*, warmup: int) -> Rate:
    """Return a rate that rises linearly, then falls as a cosine to zero at the last step."""

    def rate(base: float, step: int, steps: int) -> float:
        if step < warmup:
            return base * (step + 1) / warmup
        done = (step - warmup) / max(1, steps - warmup)
        return base * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

    return rate


def eden(
    base: float,
    *,
    batch: int,
    epoch: float,
    warmup: int = 200,
    batches: float = 5000,
    epochs: float = 4,
) -> float:
    """Return the rate of icefall's VALL-E recipe after `batch` batches, in `epoch` (from 0).

    The warm-up begins at a half. Checked on values of the official class.
    """
    decay = ((batch**2 + batches**2) / batches**2) ** -0.25
    decay *= ((epoch**2 + epochs**2) / epochs**2) ** -0.25
    rise = 1.0 if batch >= warmup else 0.5 + 0.5 * batch / warmup
    return float(base * decay * rise)


def eden_steps(
    *, warmup: int, accumulate: int = 1, processes: int = 1, epoch: int | None = None
) -> Rate:
    """Return Eden's rate for epochs of `epoch` batches; None: there are no epochs.

    As in the recipe, a process counts its own batches, of which `accumulate` make a step.
    """

    def rate(base: float, step: int, _steps: int) -> float:
        batch = step * accumulate
        epochs = 0 if epoch is None else batch * processes // epoch
        return eden(base, batch=batch, epoch=epochs, warmup=warmup)

    return rate
