"""Compute what many runs of one target share: its acoustic similarity groups (PCG).

The cache is keyed by its content (embeddings, similarity, options), so a run that needs it finds
it, and one that nobody made is made then. Prints the number of groups, their sizes, theta and how
far cosines agree with distances in the codebook (`likeness`) as JSON.
"""

import json

from speculative_tts.assets import resolve
from speculative_tts.commands import app
from speculative_tts.schema import PrecomputeConfig


def run(config: PrecomputeConfig) -> int:
    """Find or make the groups of `config.target`."""
    import torch

    from speculative_tts.caches.provide import Sources, acoustic_groups

    if config.threads < 1:
        raise ValueError(f"threads {config.threads} is below 1; give a positive number")
    if config.device.name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device=cuda needs a GPU that torch can see; use device=cpu")
    torch.set_num_threads(config.threads)
    if config.groups.path is None:
        app.require_writable(config.groups.cache)
    sources = Sources(
        resolve(config.target.path),
        (config.codec.name, resolve(config.codec.path)),
        torch.device(config.device.value),
    )
    entry = acoustic_groups(config.groups, sources)
    print(json.dumps({"folder": str(entry.folder), **entry.facts}))
    return 0


main = app.command(
    "precompute",
    PrecomputeConfig,
    run,
    examples=(
        "sst-precompute cache=groups groups.mean_size=4.5,10,40",
        "sst-precompute cache=groups groups.theta=0.5 groups.source=mel",
    ),
)
