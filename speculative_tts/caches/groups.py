"""Compute acoustic similarity groups (PCG; Yanuka et al., 2025, arXiv 2511.13732, section 3.1).

The group of a token t is G(t) = {t} and all t' with cos(v(t), v(t')) > theta; v is the target's
input embedding or another vector (`caches.vectors`). The groups are the *distinct* sets G(t); they
overlap. Ids that are no codec code (stop ids) are always alone in their groups.

Cosines are computed a block at a time and only pairs above a floor are stored, so memory follows
the number of memberships, not the square of the vocabulary. The same code runs on a GPU.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from speculative_tts.progress import Stage, silent

ROWS, COLUMNS = 2048, 8192  # a block of cosines: 64 MiB in float32
SAMPLE = 1024  # tokens whose cosines to all others give a first bound of theta
MOST_PAIRS = 2**25  # 12 bytes each, and several times that while they are sorted
CLOSE = 0.002  # largest relative error of the mean size
FINEST = 1e-6  # smallest step of theta


@dataclass(frozen=True)
class SimilarPairs:
    """Pairs of tokens first < second with a cosine above a floor."""

    first: Tensor  # int32 [pairs]
    second: Tensor  # int32 [pairs]
    cosine: Tensor  # float32 [pairs]


@dataclass(frozen=True)
class Sets:
    """Distinct groups as CSR: group k has `tokens[offsets[k] : offsets[k + 1]]`, ascending."""

    offsets: Tensor  # int32 [groups + 1]
    tokens: Tensor  # int32 [members]
    own: Tensor  # int32 [tokens of the vocabulary], the group G(t) of each

    @property
    def sizes(self) -> Tensor:
        """Number of tokens of each group, int64 [groups]."""
        return self.offsets.diff().long()

    @property
    def mean_size(self) -> float:
        """Mean number of tokens of a group."""
        return len(self.tokens) / (len(self.offsets) - 1)


def check_mean_size(mean_size: float, n_tokens: int, cap: int | None) -> None:
    """Raise ValueError for a mean size that no theta gives."""
    if not 1 <= mean_size <= n_tokens:
        raise ValueError(f"mean_size {mean_size} is outside [1, {n_tokens}], the number of codes")
    if cap is not None and mean_size > cap:
        raise ValueError(f"mean_size {mean_size} is above cap {cap}; raise cap or drop it")


def normalise(vectors: Tensor) -> Tensor:
    """Scale rows to length 1, in place; rows of zeros stay: their cosines are 0."""
    lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors.div_(lengths.clamp_(min=torch.finfo(vectors.dtype).tiny))


def similar_pairs(vectors: Tensor, floor: float, stage: Stage = silent) -> SimilarPairs:
    """Find the pairs with a cosine above `floor` among vectors [tokens, size] of length 1.

    Raise ValueError when they are too many to store.
    """
    count, blocks_found, n = 0, [], len(vectors)
    blocks = [(top, left) for top in range(0, n, ROWS) for left in range(top, n, COLUMNS)]
    work = sum(min(ROWS, n - top) * (n - top) for top in range(0, n, ROWS))
    with stage("similarity", work) as progress:
        for top, left in blocks:
            cosine = vectors[top : top + ROWS] @ vectors[left : left + COLUMNS].T
            above = (cosine.clamp_(max=1) > floor).triu_(top - left + 1)  # each pair once
            first, second = above.nonzero().unbind(1)
            pairs = (first + top).int(), (second + left).int(), cosine[first, second]
            blocks_found.append([part.cpu() for part in pairs])
            count += len(first)
            if count > MOST_PAIRS:
                raise ValueError(
                    f"theta {floor:.4g} relates more than {MOST_PAIRS} pairs of tokens; "
                    "raise theta or lower mean_size"
                )
            progress(cosine.numel())
    return SimilarPairs(*(torch.cat(parts) for parts in zip(*blocks_found, strict=True)))


def distinct_sets(pairs: SimilarPairs, theta: float, n_tokens: int, cap: int | None = None) -> Sets:
    """Return the distinct G(t) of `n_tokens` tokens; `cap` keeps only the most similar members.

    Groups are in the order of the first token whose set they are. A capped G(t) contains t.
    """
    above = pairs.cosine > theta
    first, second, cosine = (x[above] for x in (pairs.first, pairs.second, pairs.cosine))
    own = torch.arange(n_tokens)
    row = torch.cat([first.long(), second.long(), own])
    column = torch.cat([second.long(), first.long(), own])
    if cap is not None:
        rank = _rank_in_row(row, column, torch.cat([cosine, cosine, torch.full((n_tokens,), 2.0)]))
        row, column = row[rank < cap], column[rank < cap]
    key = (row * n_tokens + column).sort().values
    row, column = key // n_tokens, key % n_tokens
    sizes = row.bincount(minlength=n_tokens)
    chosen, own = _first_of_equals(row, column, sizes)
    mine = torch.zeros(n_tokens, dtype=torch.bool)
    mine[chosen] = True
    return Sets(_offsets(sizes[chosen]), column[mine[row]].int(), own.int())


def transpose(offsets: Tensor, values: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Transpose a CSR matrix, int32: values in [0, n) become rows, rows become values."""
    owner = torch.repeat_interleave(offsets.diff().long()).int()
    order = values.argsort(stable=True)
    return _offsets(values.bincount(minlength=n)), owner[order]


def find_theta(
    vectors: Tensor, mean_size: float, cap: int | None, stage: Stage = silent
) -> tuple[float, SimilarPairs]:
    """Find the theta whose groups have the wanted mean size, and the pairs down to it (or lower).

    The cosines of a sample of tokens give a floor for the stored pairs; theta then follows by
    bisection over those, with the real groups. `check_mean_size` defines the valid sizes; at 1
    every token is alone, however near another is, so that the rule is the exact one.
    """
    if mean_size == 1:
        return 1.0, SimilarPairs(torch.empty(0).int(), torch.empty(0).int(), torch.empty(0))
    n = len(vectors)
    wanted = mean_size
    while True:
        wanted = min(1.5 * wanted + 2, n)
        floor = sampled_floor(vectors, wanted, stage)
        pairs = similar_pairs(vectors, floor, stage)
        if wanted == n or distinct_sets(pairs, floor, n, cap).mean_size >= mean_size:
            return _bisect(pairs, floor, n, mean_size, cap, stage), pairs


def scores_by_unigram(sets: Sets, counts: Tensor) -> Tensor:
    """Score each group by its tokens' share of `counts` (int64 [tokens]), plus one each."""
    share = (counts + 1).double()
    share /= share.sum()
    owner = torch.repeat_interleave(sets.sizes)
    total = torch.zeros(len(sets.sizes), dtype=torch.float64)
    return total.index_add_(0, owner, share[sets.tokens.long()]).float()


def _offsets(sizes: Tensor) -> Tensor:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]).int()


def _rank_in_row(row: Tensor, column: Tensor, cosine: Tensor) -> Tensor:
    """Rank each entry within its row by falling cosine, then by token: int64 [entries]."""
    order = column.argsort(stable=True)
    for key in (-cosine, row):
        order = order[key[order].argsort(stable=True)]
    begins = _offsets(row.bincount())[:-1].long()
    rank = torch.empty_like(row)
    rank[order] = torch.arange(len(row)) - begins[row[order]]
    return rank


def _first_of_equals(row: Tensor, column: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows that equal no row before them, ascending, and the one each row equals.

    Entries are sorted by row, then column.
    """
    n = len(sizes)
    random = torch.randint(-(2**62), 2**62, (n,), generator=torch.Generator().manual_seed(0))
    code = torch.zeros(n, dtype=torch.int64).index_add_(0, row, random[column])  # wraps around
    _, same = torch.unique(code, return_inverse=True)
    first = torch.full((int(same.max()) + 1,), n).scatter_reduce_(0, same, torch.arange(n), "amin")
    like = first[same]
    begin = sizes.cumsum(0) - sizes
    assert torch.equal(sizes, sizes[like])
    twin = begin[like][row] + torch.arange(len(row)) - begin[row]
    assert torch.equal(column, column[twin]), "two sets with one hash"
    chosen = first.sort().values
    return chosen, torch.searchsorted(chosen, like)


def sampled_floor(vectors: Tensor, mean_size: float, stage: Stage) -> float:
    """Estimate a cosine above which a token has about `mean_size` - 1 others; -1 if all."""
    n = len(vectors)
    if mean_size >= n:
        return -1.0
    picked = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:SAMPLE]
    bins = 20_000
    histogram = torch.zeros(bins, dtype=torch.float64)
    sample = vectors[picked.to(vectors.device)]
    with stage("sample", len(picked) * n) as progress:
        for left in range(0, n, COLUMNS):
            cosine = (sample @ vectors[left : left + COLUMNS].T).clamp_(-1, 1).cpu()
            histogram += torch.histc(cosine, bins, -1, 1).double()
            progress(cosine.numel())
    above = histogram.flip(0).cumsum(0) / len(picked)
    return 1 - 2 * (int((above < mean_size).sum()) + 1) / bins


def _bisect(
    pairs: SimilarPairs, floor: float, n: int, mean_size: float, cap: int | None, stage: Stage
) -> float:
    """Find theta in [floor, 1] to six places."""
    low, high, best = floor, 1.0, (float("inf"), 1.0)
    steps = math.ceil(math.log2((high - low) / FINEST))
    with stage("theta", steps) as progress:
        for step in range(steps):
            theta = round((low + high) / 2, 6)
            size = distinct_sets(pairs, theta, n, cap).mean_size
            best = min(best, (abs(size / mean_size - 1), theta))
            if best[0] < CLOSE or theta in (low, high):
                progress(steps - step)
                break
            progress(1)
            low, high = (theta, high) if size > mean_size else (low, theta)
    return best[1]
