"""Check golden files of SNAC: codes of a wave by level, and the wave of an LM's codes.

Reads a folder that codec=snac reads too (config.json, pytorch_model.bin) and snac.npz: `wave` and
its codes level_0, level_1, ... by the package's `encode`; `rows`, codes as an LM with this codec
says them, and `said`, their wave by the package's `decode` under torch.manual_seed(0).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from speculative_tts.checks.compare import close, read_arrays, same
from speculative_tts.checks.registry import CheckRow
from speculative_tts.codecs.snac import SnacCodec, by_level, whole_frames


def check(folder: Path) -> Iterator[CheckRow]:
    """Check all cases of a golden folder; ValueError if it is not in the format."""
    arrays, codec = read_arrays(folder / "snac.npz"), SnacCodec.load(folder)
    wave = arrays["wave"]
    frames = whole_frames(codec.encode(wave), len(codec.levels), codec.size)
    for level, codes in enumerate(by_level(frames, codec.levels)):
        yield same(f"codes of a wave, level {level}", codes, arrays[f"level_{level}"])
    said = codec.decode(arrays["rows"].astype(np.int64))
    yield close("wave of codes", said, arrays["said"])
