"""Write a checkpoint again with its matrices in 8 bits, half of what float16 takes.

python scripts/pack.py runs/fine/target runs/fine/packed
"""

import shutil
import sys
from pathlib import Path

from safetensors.torch import save

from speculative_tts.files import write_atomic
from speculative_tts.models.loading import read_state
from speculative_tts.models.packed import pack

WEIGHTS = "model.safetensors"


def main(source: str, out: str) -> None:
    """Pack `source`'s weights into `out`, and copy its small files."""
    write_atomic(Path(out) / WEIGHTS, save(pack(read_state(Path(source))), {"format": "pt"}))
    for path in sorted(Path(source).glob("*.json")):
        shutil.copy(path, out)
    print(f"{out}: {(Path(out) / WEIGHTS).stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
