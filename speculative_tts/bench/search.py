"""Time the path search of multi-token blocks on synthetic heads and transitions.

Heads of one state agree in part: each is a shared random vector plus its own, which makes unions of
candidates about a third as large as those of independent heads.
"""

from functools import partial

import torch
from torch import Tensor

from speculative_tts.costs.timer import median_seconds
from speculative_tts.decoding.blocks.transitions import TransitionTable
from speculative_tts.decoding.blocks.viterbi import Path, PathSearch

PATH_SEARCH = ((1024, 2048, 65_536), 8, 25)  # MTP's: vocabularies, tokens a pass, candidates a head
SEEN = 40  # successors a code has on average; the tiny codec's corpus has 37


@torch.inference_mode()
def search_costs(
    vocabularies: tuple[int, ...], n: int, top_k: int, repeats: int, device: torch.device
) -> dict[str, float]:
    """Return the median seconds of choosing a block of n tokens, by vocabulary, set and mode."""
    costs = {}
    for size in vocabularies:
        transitions = synthetic_transitions(size).on(device, ids=size, weight=1.0)
        generator = torch.Generator().manual_seed(1)
        shared = 3 * torch.randn(1, 1, size, generator=generator)
        scores = (shared + torch.randn(1, n, size, generator=generator)).to(device)
        last = torch.zeros(1, dtype=torch.int64, device=device)
        uniform = torch.full((1, n), 0.5, dtype=torch.float64, device=device)
        for union in (True, False):
            search = PathSearch(transitions, top_k, union)
            name = f"{size} codes, n = {n}, k = {top_k}, {'union' if union else 'per head'}"
            modes = {
                "best": partial(search.best, scores, last),
                "sampled": partial(_drawn, search, scores, last, uniform),
            }
            for mode, run in modes.items():
                costs[f"{mode} path, {name}"] = median_seconds(run, repeats)
    return costs


def _drawn(search: PathSearch, scores: Tensor, last: Tensor, uniform: Tensor) -> Path:
    return search.sample(scores, scores.topk(search.top_k).indices, last, uniform)


def synthetic_transitions(size: int) -> TransitionTable:
    """Make a transition table with random successors of every code and a floor for the others."""
    generator = torch.Generator().manual_seed(0)
    columns = torch.randint(size, (size, SEEN), generator=generator).sort(1).values
    again = torch.zeros_like(columns, dtype=torch.bool)
    again[:, 1:] = columns[:, 1:] == columns[:, :-1]
    counts = (~again).sum(1)
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    seen = torch.rand(int(counts.sum()), generator=generator).log() - 3
    floor = torch.full((size,), -6.0)
    return TransitionTable(offsets, columns[~again].int(), seen, floor, torch.full((size,), -6.0))
