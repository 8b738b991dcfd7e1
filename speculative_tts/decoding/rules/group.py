"""Acceptance by groups of similar tokens (PCG), exact for the group that is emitted.

Yanuka et al., 2025, arXiv 2511.13732.

Tokens belong to overlapping groups and split their probability among them: `w[k, x] >= 0` sums to 1
over the groups k of token x. Coarse laws are P_c(k) = sum_x w[k, x] p(x) and Q_c(k) likewise, with
the papers' p = draft and q = target. A drafted x is given a group K ~ w[., x] and passes iff u <
Q_c(K) / P_c(K); after a rejection a group is drawn from R(k) ~ max(Q_c(k) - P_c(k), 0) and a token
of it from q(x) w[k, x] / Q_c(k). So the group follows Q_c exactly, whatever the draft; within a
group an accepted token follows the draft.

The paper draws from R by rejection (as tests/thinning.py writes it). Here the token's law is summed
over all groups at once: no loop, no trials. Weights have the form w[k, x] = s(k) /
sum of s over the groups of x with a *score* s per group; all ones is the paper's equal split.
"""

import warnings
from collections.abc import Callable

import torch
from jaxtyping import Float, Float64, Int64, Integer
from torch import Tensor
from torch.nn.functional import embedding_bag

from speculative_tts.decoding.rules.acceptance import (
    AcceptanceRule,
    Flags,
    Ids,
    NativeForm,
    Numbers,
    Probs,
    Uniforms,
)

Flat = Float[Tensor, "rows vocab"]
Places = Int64[Tensor, " possible"]
Weights = Float64[Tensor, " members"]
FEW = 16  # on a CPU, a row with less than a 16th of its tokens possible looks at those only
NEARLY_ONE = 1 - 2.0**-30  # stays below the next integer when a token id is added


def on_cpu(x: Tensor) -> bool:
    """True if the tensor is on a CPU, where reading it is free."""
    return x.device.type == "cpu"


class Group(AcceptanceRule):
    """The rule over memberships given as CSR both ways, int32.

    token_offsets: [tokens + 1], token_groups: [members], the groups of each token in ascending
    order. group_offsets: [groups + 1], group_tokens: [members], the tokens of each group. scores:
    [groups], above 0; None: ones. readable: where looking at numbers is free.
    """

    draws_by_trials = True

    def __init__(
        self,
        token_offsets: Tensor,
        token_groups: Tensor,
        group_offsets: Tensor,
        group_tokens: Tensor,
        scores: Tensor | None = None,
        *,
        readable: Callable[[Tensor], bool] = on_cpu,
    ) -> None:
        counts, sizes = token_offsets.diff().long(), group_offsets.diff().long()
        given = torch.ones(len(sizes)) if scores is None else scores
        _check(counts, sizes, token_groups, group_tokens, given)
        self._token_offsets, self._token_groups = token_offsets, token_groups
        self._group_offsets, self._group_tokens = group_offsets, group_tokens
        self._counts, self._sizes = counts, sizes
        self._readable = readable
        self._first = group_offsets[:-1].long()
        self._largest, self._most_groups = int(sizes.max()), int(counts.max())
        self._alone = (counts == 1) & (sizes[token_groups[token_offsets[:-1].long()].long()] == 1)
        own = token_groups[token_offsets[:-1].long()[self._alone]].long()
        self._scores = given.to(counts.device, torch.float64).clone()
        self._scores[own] = 1.0  # cancels anyway; so that w is 1 without rounding
        spread = self._scores[token_groups.long()]
        owner = torch.repeat_interleave(counts)
        self._total = torch.zeros_like(counts, dtype=torch.float64).index_add_(0, owner, spread)
        self._levels = self._cumulative(spread, owner)
        ones = torch.ones(len(group_tokens), device=counts.device)
        self._over_tokens = Sums(group_offsets, group_tokens, ones, len(counts), readable)
        self._over_groups = Sums(token_offsets, token_groups, ones, len(sizes), readable)

    @property
    def memberships(self) -> dict[str, Tensor]:
        """Return the arrays that compiled verification reads."""
        return {
            "token_offsets": self._token_offsets,
            "group_offsets": self._group_offsets,
            "token_groups": self._token_groups,
            "group_tokens": self._group_tokens,
            "scores": self._scores,
            "total": self._total,
            "levels": self._levels,
        }

    def native(self) -> NativeForm:
        """See `AcceptanceRule`."""
        return NativeForm(groups=self.memberships, most_groups=self._most_groups)

    @property
    def n_groups(self) -> int:
        """Return the number of distinct groups."""
        return len(self._sizes)

    def draw_group(
        self, tokens: Int64[Tensor, " n"], uniform: Float[Tensor, " n"]
    ) -> Int64[Tensor, " n"]:
        """A group K ~ w[., x] of each token, by inverse CDF of a uniform in [0, 1)."""
        level = tokens + uniform.clamp(max=NEARLY_ONE)
        entry = torch.searchsorted(self._levels, level, right=True)
        return self._token_groups.index_select(0, entry).long()

    def accept(
        self, target_probs: Probs, draft_probs: Probs, drafted: Ids, uniforms: Uniforms
    ) -> Flags:
        """Accept iff u P_c(K) < Q_c(K), K by the auxiliary uniform; reads members of K only."""
        number, vocab = drafted.numel(), target_probs.shape[-1]
        group = self.draw_group(drafted.reshape(-1), uniforms[..., 1].reshape(-1))
        size = self._sizes.index_select(0, group)[:, None]
        widest = self._largest if not self._readable(size) else int(size.max()) if number else 0
        step = torch.arange(widest, device=size.device)
        inside = step < size
        place = (self._first.index_select(0, group)[:, None] + step) * inside
        member = self._group_tokens.index_select(0, place.view(-1)).view(place.shape)
        weight = self._weights(group[:, None], member) * inside
        at = (member + torch.arange(0, number * vocab, vocab, device=size.device)[:, None]).view(-1)
        q, p = (
            (probs.reshape(-1).index_select(0, at).view(place.shape) * weight).sum(-1)
            for probs in (target_probs, draft_probs)
        )
        return (uniforms[..., 0].reshape(-1) * p < q).view(drafted.shape)

    def residual(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """sum_k max(Q_c(k) - P_c(k), 0) q(x) w[k, x] / Q_c(k)."""
        return self._rows(target_probs, draft_probs, accepted=False)

    def output_law(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """p(x) sum_k w[k, x] min(1, Q_c(k) / P_c(k)) + residual(x)."""
        return self._rows(target_probs, draft_probs, accepted=True)

    def acceptance_probability(self, target_probs: Probs, draft_probs: Probs) -> Numbers:
        """sum_k min(P_c(k), Q_c(k)) = 1 - TV(P_c, Q_c)."""
        return torch.minimum(self.coarse(target_probs), self.coarse(draft_probs)).sum(-1)

    def expected_trials(self, target_probs: Probs, draft_probs: Probs) -> Numbers:
        """Draws that thinning needs after a rejection: 1 / TV(P_c, Q_c)."""
        gap = self.coarse(target_probs) - self.coarse(draft_probs)
        return 1 / gap.clamp(min=0).sum(-1)

    def coarse(self, probs: Probs) -> Float[Tensor, "*rows groups"]:
        """Return the distribution of the group, Q_c or P_c."""
        rows = probs.reshape(-1, 1, probs.shape[-1])
        return self._gathered(rows).view(*probs.shape[:-1], -1)

    def shares(self, values: Float[Tensor, "rows n groups"]) -> Float[Tensor, "rows n vocab"]:
        """sum_k w[k, x] values(k) of each token: `coarse` transposed."""
        sums = self._over_groups(values * self._scores.to(values.dtype))
        return sums / self._total.to(values.dtype)

    def _cumulative(self, spread: Weights, owner: Int64[Tensor, " members"]) -> Weights:
        """Upper end of each membership's share of [x, x + 1): one search finds a group of x.

        The last of a token ends at x + 1 without rounding.
        """
        ends = self._token_offsets[1:].long() - 1
        running = spread.cumsum(0)
        before = torch.cat([running.new_zeros(1), running[ends[:-1]]])
        levels = owner + (running - before[owner]) / self._total[owner]
        levels[ends] = torch.arange(1, len(ends) + 1, dtype=levels.dtype, device=levels.device)
        return levels

    def _weights(
        self, groups: Int64[Tensor, "n 1"], tokens: Integer[Tensor, "n m"]
    ) -> Float64[Tensor, "n m"]:
        """Return the weights w[k, x] of pairs of a token and a group."""
        total = self._total.index_select(0, tokens.view(-1)).view(tokens.shape)
        return self._scores.index_select(0, groups[:, 0])[:, None] / total

    def _rows(self, target_probs: Probs, draft_probs: Probs, *, accepted: bool) -> Probs:
        """Residual law of each row, plus the accepted part if asked for.

        Where nothing was drafted it is the target.
        """
        shape = target_probs.shape
        q, p = target_probs.reshape(-1, shape[-1]), draft_probs.reshape(-1, shape[-1])
        drafted = p.any(-1)
        if not self._readable(q):  # the host does not know which tokens are possible
            return torch.where(drafted[:, None], self._everywhere(q, p, accepted=accepted), q).view(
                shape
            )
        possible = (q + p) != 0  # of a row without a law, which is NaN, all
        few = drafted & (possible.sum(1) * FEW <= shape[-1])
        out, rest = q.clone(), drafted & ~few
        if few.any():
            row, token = (possible & few[:, None]).nonzero().unbind(1)
            out[few] = self._where_possible(q, p, row, token, accepted=accepted)[few]
        if rest.any():
            out[rest] = self._everywhere(q[rest], p[rest], accepted=accepted)
        return out.view(shape)

    def _everywhere(self, q: Flat, p: Flat, *, accepted: bool) -> Flat:
        """Two passes over all memberships: tokens to groups, and back."""
        tiny = torch.finfo(q.dtype).tiny
        q_c, p_c = self._gathered(torch.stack([q, p], 1)).unbind(1)
        factors = [(q_c - p_c).clamp(min=0) / q_c.clamp(min=tiny)]
        if accepted:
            factors.append(torch.minimum(q_c, p_c) / p_c.clamp(min=tiny))
        shares = self.shares(torch.stack(factors, 1)).unbind(1)
        mass = torch.where(self._alone, (q - p).clamp(min=0), q * shares[0])
        return mass + p * shares[1] if accepted else mass

    def _gathered(self, probs: Float[Tensor, "rows n vocab"]) -> Float[Tensor, "rows n groups"]:
        """Return the coarse distributions of rows at the tokens given."""
        sums = self._over_tokens(probs / self._total.to(probs.dtype))
        return sums * self._scores.to(probs.dtype)

    def _where_possible(
        self, q: Flat, p: Flat, row: Places, token: Places, *, accepted: bool
    ) -> Flat:
        """Do `_everywhere` over the memberships of tokens at (row, token) only, in float64.

        They are all with q + p > 0 of their rows: of a sampler with top-k, a few dozen.
        """
        count = self._counts.index_select(0, token)
        of = torch.repeat_interleave(count)  # [memberships of possible tokens] -> possible token
        first = self._token_offsets.index_select(0, token) + count - count.cumsum(0)
        place = first.index_select(0, of) + torch.arange(len(of))
        group = self._token_groups.index_select(0, place)
        score, at = self._scores.index_select(0, group), row * q.shape[-1] + token
        total = self._total.index_select(0, token)
        own_q, own_p = (
            (x.reshape(-1).index_select(0, at) / total).index_select(0, of) * score for x in (q, p)
        )
        key = group if len(q) == 1 else group + (row * self.n_groups).index_select(0, of)
        number, tiny = len(q) * self.n_groups, torch.finfo(torch.float64).tiny
        q_c, p_c = (torch.bincount(key, own, number).index_select(0, key) for own in (own_q, own_p))
        mass = (q_c - p_c).clamp_(min=0) * (own_q / q_c.clamp(min=tiny))
        if accepted:
            mass += torch.minimum(q_c, p_c) * (own_p / p_c.clamp(min=tiny))
        out = torch.zeros_like(q)
        out.view(-1).index_copy_(0, at, torch.bincount(of, mass, len(token)).to(q.dtype))
        return out


class Sums:
    """Sums over the columns that a 0/1 matrix in CSR has in each row.

    [batch, n, columns] -> [batch, n, rows]. In float32 on a CPU as sparse products with `ones`
    ([members], shared by several), which take two thirds of embedding_bag's time; one product a row
    of the batch, so that a batch equals its rows bit for bit.
    """

    def __init__(
        self,
        offsets: Tensor,
        indices: Tensor,
        ones: Tensor,
        columns: int,
        readable: Callable[[Tensor], bool] = on_cpu,
    ) -> None:
        self._readable = readable
        self._offsets, self._indices, self._matrix = offsets, indices, None
        if offsets.device.type != "cpu":
            return
        if not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
            return
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            # torch 2.11 says so once of whatever comes first, although this one is checked
            warnings.filterwarnings("ignore", "Sparse invariant checks are implicitly disabled")
            size = (len(offsets) - 1, columns)
            self._matrix = torch.sparse_csr_tensor(
                offsets, indices, ones, size, check_invariants=True
            )

    def __call__(self, x: Float[Tensor, "batch n columns"]) -> Float[Tensor, "batch n rows"]:
        """Return the sums of each row."""
        if x.dtype == torch.float32 and self._readable(x) and self._matrix is not None:
            matrix = self._matrix
            if x.shape[1] == 1:  # one alone has a quicker kernel
                return torch.stack([torch.mv(matrix, row) for row in x[:, 0]])[:, None]
            return torch.stack([(matrix @ row.T.contiguous()).T for row in x])
        bags = embedding_bag(
            self._indices,
            x.flatten(0, 1).T.contiguous(),
            self._offsets,
            mode="sum",
            include_last_offset=True,
        )
        return bags.T.reshape(*x.shape[:-1], -1)


def _check(
    counts: Tensor, sizes: Tensor, token_groups: Tensor, group_tokens: Tensor, scores: Tensor
) -> None:
    """ValueError for memberships that are no cover of the vocabulary."""
    if not len(counts) or int(counts.min()) < 1:
        raise ValueError("a token belongs to no group; every token needs one, if only its own")
    if int(sizes.min()) < 1:
        raise ValueError("a group has no token; leave empty groups out")
    if not int(counts.sum()) == int(sizes.sum()) == len(token_groups) == len(group_tokens):
        raise ValueError("memberships by token and by group differ; transpose one of them")
    if len(scores) != len(sizes) or not bool(((scores > 0) & scores.isfinite()).all()):
        raise ValueError(f"scores must be {len(sizes)} positive numbers, one a group")
