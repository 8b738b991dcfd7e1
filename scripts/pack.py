"""Write checkpoints as one, their mean, with its matrices in 8 bits: half of what float16 takes.

python scripts/pack.py runs/fine/packed runs/fine/target
"""

import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save

from speculative_tts.files import write_atomic
from speculative_tts.models.loading import read_state
from speculative_tts.models.packed import pack

WEIGHTS = "model.safetensors"


def main(out: str, *sources: str) -> None:
    """Pack the mean of the sources' weights into `out`, and copy the first one's small files."""
    states = [read_state(Path(source)) for source in sources]
    mean = {n: torch.stack([s[n].float() for s in states]).mean(0).half() for n in states[0]}
    write_atomic(Path(out) / WEIGHTS, save(pack(mean), {"format": "pt"}))
    for path in sorted(Path(sources[0]).glob("*.json")):
        shutil.copy(path, out)
    print(f"{out}: {(Path(out) / WEIGHTS).stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
