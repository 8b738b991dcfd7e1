"""Trains a draft inherited from layers of a target, as SSD does; gives an ordinary checkpoint.

Chosen layers and all that is not a layer are copied; the first layers and the head are trained.

Run by torchrun, the batch is multiplied by the number of processes.
"""

import contextlib
import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from speculative_tts import assets
from speculative_tts.commands import app
from speculative_tts.schema import Device, DType, TrainDraftConfig

SAMPLING = ("temperature", "top_k", "top_p")  # of a checkpoint; what it does not say is off


def run(config: TrainDraftConfig) -> int:
    """Train or continue the draft of `config`; prints the exported draft's summary as JSON."""
    import torch
    from accelerate import Accelerator

    from speculative_tts.models.families import load_layout
    from speculative_tts.training.data.pairs import load_data
    from speculative_tts.training.draft import make_draft

    config = dataclasses.replace(
        config,
        target=dataclasses.replace(config.target, path=str(assets.resolve(config.target.path))),
    )
    app.require_device(config.device)
    codes, out = app.require_codes(config.codes), app.require_writable(config.out)
    torch.set_num_threads(config.threads)
    precision = "bf16" if config.dtype is DType.bfloat16 else "no"
    accelerator = Accelerator(cpu=config.device is Device.cpu, mixed_precision=precision)
    layout = load_layout(config.target)
    with _tracking(config, out, accelerator.is_main_process) as log:
        summary = make_draft(
            config,
            lambda: load_data(
                codes,
                config.target,
                seed=config.seed,
                batch_size=config.batch_size,
                dev_utterances=config.dev_utterances,
            ),
            accelerator,
            _sampler(layout),
            layout.sampling.get("temperature") or 1.0,
            log,
        )
    if accelerator.is_main_process:
        print(json.dumps({"draft": str(out), **summary}))
    accelerator.end_training()
    return 0


def _sampler(layout: Any) -> Any:
    """The target's sampler on logits [n, vocab] cut to speech rows; it may stop at any position."""
    import torch

    from speculative_tts.decoding.sampling import Sampler, StopRule

    named = {name: layout.sampling[name] for name in SAMPLING if name in layout.sampling}
    sampler = Sampler(**named)
    order = layout.order(text_rows=bool(layout.sampling.get("text_rows")))

    def probabilities(logits: torch.Tensor) -> torch.Tensor:
        rows = logits[None][..., order.to(logits.device)]
        none = torch.zeros(rows.shape[:2], dtype=torch.int64, device=rows.device)
        stop = StopRule.build(layout.stop_ids, rows.shape[-1], [0], rows.device)
        return sampler(rows, none, none, stop)[0]

    return probabilities


@contextlib.contextmanager
def _tracking(config: TrainDraftConfig, out: Path, main_process: bool) -> Iterator[Any]:
    """A function that sends rows of metrics to wandb, or None when it was not asked for.

    The run's id comes from `out`, so a training that goes on continues its wandb run.
    """
    if not (config.wandb and main_process):
        yield None
        return
    import wandb

    plain = {k: v.name if isinstance(v, Enum) else v for k, v in dataclasses.asdict(config).items()}
    key = hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:16]
    with wandb.init(
        project="speculative_tts", name=out.name, id=key, resume="allow", config=plain
    ) as tracker:
        yield lambda row: tracker.log(row, step=row["step"])


main = app.command(
    "train_draft",
    TrainDraftConfig,
    run,
    examples=(
        "sst-train-draft layers=[0,1,10,11] train_layers=2 out=runs/draft-lower-upper",
        "sst-train-draft losses.ce=0 losses.lk=1 select=acceptance out=runs/draft-lk",
        "torchrun --nproc-per-node 2 -m speculative_tts.commands.train_draft out=runs/draft-two",
    ),
)

if __name__ == "__main__":
    sys.exit(main())
