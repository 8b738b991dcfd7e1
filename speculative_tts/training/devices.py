"""Choose the devices and the precision of a training, and name them."""

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType

from speculative_tts.native.library import has_bfloat16
from speculative_tts.schema.common import Device, DType

SHARDED = (DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM)


def accelerator_for(device: Device, dtype: DType = DType.float32) -> Accelerator:
    """Return the accelerator of a device and precision; weights are float32 in any case.

    Each process holds the whole model. Raise ValueError when a launcher would shard it.
    """
    precision = "bf16" if dtype is DType.bfloat16 else "no"
    accelerator = Accelerator(cpu=device is Device.cpu, mixed_precision=precision)
    kind = accelerator.distributed_type
    if kind in SHARDED:
        raise ValueError(
            f"launched with {kind.value}, which shards the model, so that shards would be saved; "
            "train data parallel: torchrun, or accelerate launch --multi_gpu"
        )
    return accelerator


def fast_dtype(device: Device) -> DType:
    """Return bfloat16 where the hardware multiplies in it, else float32.

    A CPU without such instructions takes five times as long in bfloat16 as in float32.
    """
    fast = has_bfloat16() if device is Device.cpu else torch.cuda.is_bf16_supported()
    return DType.bfloat16 if fast else DType.float32


def described(accelerator: Accelerator) -> str:
    """Name the processes, their device and what they compute in."""
    where = f"{accelerator.num_processes} x {accelerator.device.type}"
    if accelerator.mixed_precision == "bf16":
        return f"{where}, bfloat16"
    slow = accelerator.device.type == "cpu" and not has_bfloat16()
    return f"{where}, float32{': this CPU has no native bfloat16' if slow else ''}"


def fewest(accelerator: Accelerator, number: int) -> int:
    """Return the smallest of all processes' numbers."""
    return int(accelerator.gather(torch.tensor([number], device=accelerator.device)).min())
