"""Write the mean of several checkpoints, heads or layers, with its matrices in 8 bits.

python scripts/pack.py runs/fine/packed runs/fine/target

Integer tensors, such as the ranking of codes, and the small files come from the first source; the
description of heads or of a layer names the averaged sources.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save

from speculative_tts.files import files_hash, write_atomic
from speculative_tts.models.decoder.packed import pack, unpack
from speculative_tts.typed import write_json


def main(out: str, *sources: str) -> None:
    """Pack the mean of the sources' weights into `out`, and copy the first one's small files."""
    files = [[*Path(source).glob("*.safetensors")] for source in sources]
    for source, weights in zip(sources, files, strict=True):
        if len(weights) != 1:
            sys.exit(f"{source} has {len(weights)} files of weights; give folders of one each")
    states = [unpack(load_file(path)) for (path,) in files]
    mean = {
        name: torch.stack([one[name].float() for one in states]).mean(0).half()
        if first.is_floating_point()
        else first
        for name, first in states[0].items()
    }
    packed = Path(out) / files[0][0].name
    write_atomic(packed, save(pack(mean), {"format": "pt"}))
    for path in sorted(Path(sources[0]).glob("*.json")):
        shutil.copy(path, out)
        description = json.loads(path.read_text(encoding="utf-8"))
        if len(files) > 1 and "about" in description:
            about = {"settings": description["about"]["settings"]}  # not one source's dev figures
            description["about"] = about | {"mean_of": [files_hash(paths) for paths in files]}
            write_json(Path(out) / path.name, description)
    print(f"{packed}: {packed.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
