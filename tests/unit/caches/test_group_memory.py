"""Memory of building groups: by `provide.make` in a process of its own, whose peak counts.

The paper's size, 65,536 codes of 4,096 dimensions, takes minutes: `pytest -m full`.
"""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from pathlib import Path
from types import SimpleNamespace
import torch
from speculative_tts.caches import provide
from speculative_tts.provenance import peak_gib
from speculative_tts.schema.common import GroupsConfig
n, size, wanted = map(int, sys.argv[1:])
torch.set_num_threads(2)
layout = SimpleNamespace(n_codes=n, speech_vocab_size=n + 1, stop_ids=(n,))
sources = provide.Sources(Path(), ("none", Path()), torch.device("cpu"))
provide.sound_vectors = lambda *_: torch.randn(n, size, generator=torch.Generator().manual_seed(0))
provide.load_codec = lambda *_: SimpleNamespace(n_codes=n)
_, facts = provide.make(GroupsConfig(mean_size=wanted), layout, sources, None)
print(facts["mean_size"], facts["bytes"], peak_gib())
"""


@pytest.mark.parametrize(
    ("n", "size", "wanted", "limit"),
    [
        (12_288, 64, 40, 0.75),  # all cosines at once would take 0.56 GiB more
        pytest.param(65_536, 4096, 140, 4.0, marks=pytest.mark.full),
    ],
)
def test_groups_are_built_in_bounded_memory(n: int, size: int, wanted: int, limit: float) -> None:
    """`limit` is in GiB, of the whole process.

    Indices take twice 4 bytes a membership, as the paper counts, and the offsets.
    """
    command = [sys.executable, "-c", SCRIPT, *map(str, (n, size, wanted))]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    mean, taken, peak = map(float, found)
    assert mean == pytest.approx(wanted, rel=0.01)
    assert taken <= 8 * n * (wanted * 1.01 + 1) + 8
    assert peak < limit
