"""Laws of groups of tokens, for a loss that sees what PCG's rule sees."""

from pathlib import Path

import torch

from speculative_tts.caches.provide import KIND, RULE, tensors
from speculative_tts.caches.store import open_named
from speculative_tts.decoding.groups import Group, on_cpu
from speculative_tts.models.speech_lm import Layout
from speculative_tts.training.losses import Coarse


def coarse_laws(folder: str | None, layout: Layout, device: torch.device) -> Coarse:
    """Of laws over speech ids [n, ids], by the groups of a cache folder.

    Raises ValueError where there is none, or one of another vocabulary.
    """
    if folder is None:
        raise ValueError("losses.group has no groups; give groups=<folder of sst-precompute>")
    entry = open_named(Path(folder), KIND, RULE)
    own = [layout.n_codes, layout.speech_vocab_size, sorted(layout.stop_ids)]
    if (found := entry.description.get("vocabulary")) != own:
        raise ValueError(
            f"groups {folder} are of a vocabulary {found} (codes, ids, stop ids), the target's is "
            f"{own}; make its own with sst-precompute"
        )
    return Group(**tensors(entry, device), readable=on_cpu).coarse
