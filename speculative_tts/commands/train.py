"""Run a training for the three training commands: processes, tracking, printed summary."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from speculative_tts.commands import app
from speculative_tts.schema.common import Device, DType
from speculative_tts.tracking import Log, tracked_rows
from speculative_tts.typed import json_text

if TYPE_CHECKING:
    from accelerate import Accelerator

Train = Callable[["Accelerator", Log], dict[str, Any]]


def train(
    what: str, config: Any, job: Train, *, device: Device = Device.cpu, dtype: DType = DType.float32
) -> int:
    """Run a training in `config.out`; the main process prints its summary as JSON."""
    import torch

    from speculative_tts.training.devices import accelerator_for

    app.require_device(device)
    out = app.require_writable(config.out)
    torch.set_num_threads(config.threads)
    accelerator = accelerator_for(device, dtype)
    with tracked_rows(config, out) as track:
        summary = job(accelerator, track)
    if accelerator.is_main_process:
        print(json_text({what: str(out), **summary}))
    accelerator.end_training()
    return 0
