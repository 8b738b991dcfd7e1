"""ScaledAdam and Eden follow the official classes' trajectory."""

from pathlib import Path

import numpy as np
import torch

from speculative_tts.training.scaled_adam import ScaledAdam
from speculative_tts.training.schedule import eden

GOLDEN = Path(__file__).parents[2] / "golden" / "scaled_adam" / "scaled_adam_eden.npz"


def test_the_official_trajectory() -> None:
    with np.load(GOLDEN) as stored:
        golden = {name: stored[name] for name in stored.files}
    names = sorted(name.removeprefix("init/") for name in golden if name.startswith("init/"))
    params = [torch.nn.Parameter(torch.from_numpy(golden[f"init/{name}"])) for name in names]
    optimizer = ScaledAdam(
        params, lr=0.05, betas=(0.9, 0.95), clipping_scale=2.0, clipping_update_period=10
    )
    rates = []
    for step in range(len(golden["lr_after_step"])):
        for param, name in zip(params, names, strict=True):
            param.grad = torch.from_numpy(golden[f"grad/{name}"][step])
        if step:
            optimizer.param_groups[0]["lr"] = rates[-1]
        else:
            optimizer.param_groups[0]["lr"] = eden(0.05, batch=0, epoch=0)
        optimizer.step()
        rates.append(eden(0.05, batch=step + 1, epoch=0))
        for param, name in zip(params, names, strict=True):
            np.testing.assert_allclose(
                param.detach().numpy(), golden[f"traj/{name}"][step], rtol=1e-9, atol=1e-12
            )
    np.testing.assert_allclose(rates, golden["lr_after_step"], rtol=1e-12)


def test_edens_table() -> None:
    with np.load(GOLDEN) as stored:
        names = [name for name in stored.files if name.startswith("eden")]
        golden = {name: stored[name] for name in names}
    assert "eden_lr" in golden, names
    table = golden["eden_lr"]
    epochs = golden.get("eden_epochs", np.arange(table.shape[0]))
    batches = golden.get("eden_batches", np.arange(table.shape[1]))
    for i, epoch in enumerate(epochs):
        for j, batch in enumerate(batches):
            rate = eden(0.05, batch=int(batch), epoch=float(epoch))
            np.testing.assert_allclose(rate, table[i, j], rtol=1e-9)
