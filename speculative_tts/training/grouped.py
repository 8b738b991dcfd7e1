"""Compute distributions over groups of tokens, so that a loss can follow PCG's rule."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.caches.provide import KIND, RULE, tensors
from speculative_tts.caches.store import open_named
from speculative_tts.decoding.rules.group import Group, on_cpu
from speculative_tts.models.speech_lm import Layout
from speculative_tts.training.losses import Coarse


def group_distributions(folder: str | None, layout: Layout, device: torch.device) -> Coarse:
    """Return a function from distributions over speech ids [n, ids] to those over cached groups.

    Raise ValueError where the folder is missing or its groups are of another vocabulary.
    """
    if folder is None:
        raise ValueError("losses.group has no groups; give groups=<folder of sst-precompute>")
    entry = open_named(Path(folder), KIND, RULE)
    own = [layout.n_codes, layout.speech_vocab_size, sorted(layout.stop_ids)]
    if (vocabulary := entry.description.get("vocabulary")) != own:
        raise ValueError(
            f"groups {folder} are of a vocabulary {vocabulary} (codes, ids, stop ids), the "
            f"target's is {own}; make its own with sst-precompute"
        )
    rule = Group(**tensors(entry, device), readable=on_cpu)

    class Coarser(torch.autograd.Function):
        """Sum over groups, with a gradient of its own: torch's of sparse products takes seconds."""

        @staticmethod
        def forward(_: Any, probs: Tensor) -> Tensor:
            return rule.coarse(probs)

        @staticmethod
        def backward(_: Any, *gradients: Tensor) -> Tensor:
            return rule.shares(gradients[0][:, None])[:, 0]

    def coarse(probs: Tensor) -> Tensor:
        out: Tensor = Coarser.apply(probs)  # type: ignore[no-untyped-call]
        return out

    return coarse
