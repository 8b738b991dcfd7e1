"""Choosers of a block of tokens among the predictions of multi-token heads.

Each head chooses by itself, or a path search does (`viterbi`). Where the utterance ends:

- own choices: at the first stop id, as in any loop;
- best path: before the first head whose likeliest token is a stop id (the paper says nothing);
- sampled path: head i says how probable it is that the utterance has ended by its token (heads are
  trained to repeat the stop id after the end), so one uniform per block is compared with each;
  with the sampler's `end_when_likeliest` also before the first head that is likeliest to end.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from speculative_tts.decoding.batch import BatchState
from speculative_tts.decoding.blocks.transitions import IMPOSSIBLE
from speculative_tts.decoding.blocks.viterbi import Path, PathSearch
from speculative_tts.decoding.gpu import blocks as on_gpu
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.decoding.gpu.paths import PathKernels
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.randomness import ACCEPT, DRAFT, NEXT, draw
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Laws, Places, Sampler, StopRule
from speculative_tts.native import blocks as native

PerRow = Int64[Tensor, " batch"]
Kept = Float[Tensor, "batch n k"]
KeptIds = Int64[Tensor, "batch n k"]
Native = tuple[Sampler, native.Search | None]
"""How a native call chooses: each head's token by the sampler, or by a search."""
NUMBERS = (torch.float32, torch.int64)  # of transitions that a native search reads
LOOK_BACK = (RepetitionAware, RepetitionPenalty)
"""Samplers whose distribution depends on the tokens before."""


@dataclass(frozen=True)
class ChosenBlock:
    """Tokens, a stop id where the utterance ends, and dead lattices."""

    tokens: Int64[Tensor, "batch n"]
    dead: Bool[Tensor, " batch"] | None = None


class IndependentHeads:
    """Each token from its own head by the target's sampler (greedy at temperature 0).

    Heads do not see the tokens of the block; a sampler that looks back does, drawn one by one.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self.native: Native | None = (sampler, None)

    def __call__(
        self,
        logits: Laws,
        rows: BatchState,
        before: PerRow | None = None,  # noqa: ARG002 - of choosers that count transitions
    ) -> ChosenBlock:
        """Writes the tokens to `rows`, provisionally."""
        return ChosenBlock(self._drawn(logits, rows, NEXT)[1])

    def draft(self, logits: Laws, rows: BatchState) -> Laws:
        """Write a draft to `rows` and return the distribution of each of its tokens."""
        return self._drawn(logits, rows, DRAFT)[0]

    def _drawn(self, logits: Laws, rows: BatchState, purpose: int) -> tuple[Laws, Places]:
        """Return distributions and the tokens that were drawn and written."""
        positions = rows.next_positions(logits.shape[1])
        parts = [(logits, positions)]
        if isinstance(self._sampler, LOOK_BACK):  # each contiguous, as kernels take them
            turned = zip(
                *(x.transpose(0, 1).contiguous() for x in (logits, positions)), strict=True
            )
            parts = [(one[:, None], where[:, None]) for one, where in turned]
        laws, tokens = [], []
        for step, (part, where) in enumerate(parts):
            law = self._sampler(part, rows.tokens, where, rows.stop)
            if runs(law):
                token = on_gpu.write_draws(rows, law, step, purpose)
            else:
                token = draw(law, rows.uniform(where, purpose))
                rows.tokens.scatter_(1, where, token)
            laws.append(law)
            tokens.append(token)
        return (
            (laws[0], tokens[0]) if len(laws) == 1 else (torch.cat(laws, 1), torch.cat(tokens, 1))
        )


class ViterbiHeads:
    """A path through the heads' candidates, the best one or one drawn; see the module.

    Of the target's sampler it knows the temperature alone: candidates are `search.top_k` a head.
    """

    def __init__(
        self,
        search: PathSearch,
        stop: StopRule,
        *,
        temperature: float,
        sample: bool,
        end_when_likeliest: bool = False,
    ) -> None:
        if not temperature > 0:
            raise ValueError(f"viterbi.temperature {temperature} is not above 0; 1 is plain")
        self._search, self._temperature, self._sample = search, temperature, sample
        self._ends = end_when_likeliest
        self._free = replace(search, boundary=False)  # where no code comes before the block
        self._stop_ids = stop.is_stop.nonzero()[:, 0]
        self._bar = torch.where(stop.is_stop, IMPOSSIBLE, 0.0)  # no path goes through a stop id
        own = (search, self._stop_ids, temperature)
        self._kernels = PathKernels(*own, sample=sample, end_when_likeliest=end_when_likeliest)

    @cached_property
    def native(self) -> Native | None:
        """Return the native search; None unless transitions are float32 on a CPU."""
        search = self._search
        arrays = search.transitions.arrays
        if not all(x.device.type == "cpu" and x.dtype in NUMBERS for x in arrays.values()):
            return None
        made = native.search(
            search.transitions.ids,
            arrays,
            top_k=search.top_k,
            temperature=self._temperature,
            joint=search.union,
            boundary=search.boundary,
            sample=self._sample,
            end_when_likeliest=self._ends,
        )
        return Sampler(), made

    def __call__(self, logits: Laws, rows: BatchState, before: PerRow | None = None) -> ChosenBlock:
        """A block; its tokens are not written.

        before: each prompt's last code, -1 where there is none; None for later blocks, before which
        comes what the rows hold.
        """
        positions = rows.next_positions(logits.shape[1])
        if self._kernels.takes(logits):
            return ChosenBlock(*self._kernels.block(logits, positions, rows, before))
        logits = self._masked(logits, positions, rows.stop)
        scores = logits + self._bar
        if self._sample:
            kept, ids = self._kept(logits)
            top, uniform = kept[..., 0], rows.uniform(positions, NEXT)
            path = self._path(lambda s, last: s.sample(scores, ids, last, uniform), rows, before)
            over = self._over(kept, ids, rows.stop)
            ends = rows.uniform(positions[:, :1], ACCEPT) >= 1 - over
        else:
            path = self._path(lambda s, last: s.best(scores, last), rows, before)
            top, best = logits.max(-1)
            ends = rows.stop.is_stop[best]
        tokens = path.tokens
        if len(self._stop_ids):
            tokens = torch.where(ends, self._end(logits), tokens)
        nothing = logits.shape[-1]  # see `BatchState`
        return ChosenBlock(torch.where(top.isfinite(), tokens, nothing), path.dead)

    def draft(self, logits: Laws, rows: BatchState) -> Laws:
        """Write a draft to `rows` and return the distribution of each of its tokens.

        Each is the distribution given the tokens of the block before, by the same paths and ends;
        of the best path it is certain. A path is drawn from its beginning, by messages from its
        end: drawn from its end, a token would hang on uniforms of positions that are drafted again.
        """
        n, vocab = logits.shape[1:]
        positions = rows.next_positions(n)
        if self._kernels.takes(logits):
            return self._kernels.draft(logits, positions, rows)
        if not self._sample:
            tokens = self(logits, rows).tokens
            rows.tokens.scatter_(1, positions, tokens)
            certain = F.one_hot(tokens, vocab + 1)[..., :vocab].float()
            return certain / certain.sum(-1, keepdim=True)  # NaN where there is no distribution
        logits = self._masked(logits, positions, rows.stop)
        kept, ids = self._kept(logits)
        walk = self._search.walk(logits + self._bar, ids, rows.last(1)[:, 0])
        ended = F.pad(self._over(kept, ids, rows.stop).cummax(1).values, (1, 0))
        ends = torch.where(ended[:, :-1] < 1, ended.diff() / (1 - ended[:, :-1]), 1.0)
        laws, token = [], None
        for place in range(n):
            law = walk.law(place, token) * (1 - ends[:, place, None])
            if len(self._stop_ids):
                law.scatter_add_(1, self._end(logits)[:, place, None], ends[:, place, None])
            laws.append(law)
            token = draw(law, rows.uniform(positions[:, place, None], DRAFT)[:, 0])
            rows.tokens.scatter_(1, positions[:, place, None], token[:, None])
        return torch.stack(laws, 1)

    def _masked(self, logits: Laws, positions: Places, stop: StopRule) -> Laws:
        logits = stop.mask(logits, positions)
        return logits if self._temperature == 1 else logits / self._temperature

    def _kept(self, logits: Laws) -> tuple[Kept, KeptIds]:
        """Logits and ids of each head's candidates."""
        return logits.topk(min(self._search.top_k, logits.shape[-1]), -1)

    def _over(self, kept: Kept, ids: KeptIds, stop: StopRule) -> Float[Tensor, "batch n"]:
        """Return each head's probability that speech has ended by its token."""
        over = (kept.softmax(-1) * stop.is_stop[ids]).sum(-1).clamp(max=1)
        return torch.where(stop.is_stop[ids[..., 0]], 1.0, over) if self._ends else over

    def _end(self, logits: Laws) -> Places:
        """The likeliest stop id of each head."""
        return self._stop_ids[logits[..., self._stop_ids].argmax(-1)]

    def _path(
        self, run: Callable[[PathSearch, Tensor], Path], rows: BatchState, before: PerRow | None
    ) -> Path:
        """The path that `run` finds; without a boundary in rows that have nothing before."""
        if before is None:
            return run(self._search, rows.last(1)[:, 0])
        found = run(self._search, before.clamp(min=0))
        if not self._search.boundary:
            return found
        free, none = run(self._free, before), before < 0
        tokens = torch.where(none[:, None], free.tokens, found.tokens)
        return Path(tokens, torch.where(none, free.dead, found.dead))


Chooser = IndependentHeads | ViterbiHeads
