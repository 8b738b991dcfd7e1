"""Laws of groups of tokens, for a loss that sees what PCG's rule sees."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.caches.provide import KIND, RULE, tensors
from speculative_tts.caches.store import open_named
from speculative_tts.decoding.rules.group import Group, on_cpu
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
    rule = Group(**tensors(entry, device), readable=on_cpu)

    class Coarser(torch.autograd.Function):
        """With a gradient of its own: torch's of sparse products takes seconds."""

        @staticmethod
        def forward(_: Any, law: Tensor) -> Tensor:
            return rule.coarse(law)

        @staticmethod
        def backward(_: Any, *gradients: Tensor) -> Tensor:
            return rule.shares(gradients[0][:, None])[:, 0]

    def coarse(law: Tensor) -> Tensor:
        out: Tensor = Coarser.apply(law)  # type: ignore[no-untyped-call]
        return out

    return coarse
