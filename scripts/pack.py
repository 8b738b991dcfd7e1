"""Write checkpoints, or heads, as one, their mean, with its matrices in 8 bits: half of float16.

python scripts/pack.py runs/fine/packed runs/fine/target
"""

import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save

from speculative_tts.files import write_atomic
from speculative_tts.models.packed import pack, unpack


def main(out: str, *sources: str) -> None:
    """Pack the mean of the sources' weights into `out`, and copy the first one's small files."""
    files = [[*Path(source).glob("*.safetensors")] for source in sources]
    for source, found in zip(sources, files, strict=True):
        if len(found) != 1:
            sys.exit(f"{source} has {len(found)} files of weights; give folders of one each")
    states = [unpack(load_file(path)) for (path,) in files]
    mean = {n: torch.stack([s[n].float() for s in states]).mean(0).half() for n in states[0]}
    packed = Path(out) / files[0][0].name
    write_atomic(packed, save(pack(mean), {"format": "pt"}))
    for path in sorted(Path(sources[0]).glob("*.json")):
        shutil.copy(path, out)
    print(f"{packed}: {packed.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
