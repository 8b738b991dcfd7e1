"""Build multi-token decoding from its settings: the target's heads, and the chooser of a block."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from speculative_tts.assets import require
from speculative_tts.caches.transitions import transitions
from speculative_tts.decoding.blocks.choosers import (
    LOOK_BACK,
    Chooser,
    IndependentHeads,
    ViterbiHeads,
)
from speculative_tts.decoding.blocks.transitions import (
    DenseTransitions,
    SparseTransitions,
    TransitionTable,
)
from speculative_tts.decoding.blocks.viterbi import PathSearch
from speculative_tts.decoding.model_cache import Keep
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.heads import Heads, load_heads
from speculative_tts.provenance import content_hash
from speculative_tts.schema.common import CheckpointConfig, CodecConfig, TransitionsConfig
from speculative_tts.schema.decode import Candidates, HeadsConfig, PathMode, ViterbiConfig


@dataclass(frozen=True)
class Target:
    """The target that heads belong to, as configured and loaded."""

    config: CheckpointConfig
    codec: CodecConfig
    n_codes: int
    stop_ids: tuple[int, ...]
    vocab_size: int
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True)
class MultiToken:
    """Heads and chooser; `facts` say which, for provenance."""

    heads: Heads
    choose: Chooser
    facts: dict[str, Any]


def build_multi_token(
    heads: HeadsConfig, viterbi: ViterbiConfig, target: Target, sampler: Sampler, keep: Keep
) -> MultiToken:
    """Raises ValueError for heads of another target, another codec's transitions, k or n amiss."""
    if heads.path is None:
        raise ValueError("heads.path is not set; train heads with sst-train-heads and give it")
    folder, checkpoint = require(Path(heads.path)), Path(target.config.path)
    loaded = keep(
        ("heads", heads.n, content_hash(checkpoint), target.dtype, target.device),
        heads.path,
        lambda: load_heads(
            folder, heads.n, target=checkpoint, dtype=target.dtype, device=target.device
        ),
    )
    if loaded.vocab_size != target.vocab_size:
        raise ValueError(
            f"heads {heads.path} predict {loaded.vocab_size} ids, the target emits "
            f"{target.vocab_size}; set sampling.text_rows=false, or train heads of this target"
        )
    facts: dict[str, Any] = {"heads": content_hash(folder), "n": loaded.n}
    if viterbi.mode is PathMode.none:
        return MultiToken(loaded, IndependentHeads(sampler), facts)
    if sampler.slots is not None:
        raise ValueError(
            f"viterbi.mode {viterbi.mode.name} joins codes of one codebook, and a frame of this "
            f"target has {len(sampler.slots.sizes)}; give viterbi.mode=none"
        )
    table, about = _kept_transitions(viterbi.transitions, viterbi.weight, target, keep)
    search = PathSearch(
        table,
        viterbi.top_k,
        union=viterbi.candidates is Candidates.union,
        boundary=viterbi.boundary,
    )
    temperature = sampler.temperature or 1.0
    stop = StopRule.build(target.stop_ids, target.vocab_size, [0], target.device)
    choose = ViterbiHeads(
        search,
        stop,
        temperature=temperature if viterbi.temperature is None else viterbi.temperature,
        sample=viterbi.mode is PathMode.sample,
        end_when_likeliest=sampler.end_when_likeliest,
    )
    return MultiToken(loaded, choose, {**facts, "transitions": about})


def left_out(viterbi: ViterbiConfig, sampler: Sampler) -> str | None:
    """Say what of the sampler the choice of a block leaves out; None where it applies all."""
    if viterbi.mode is PathMode.none:
        return None
    if sampler.top_p == 1 and not isinstance(sampler, LOOK_BACK):
        return None
    return (
        "of the sampler a path search applies temperature and viterbi.top_k only, neither "
        "top_p nor repetition rules; viterbi.mode=none applies all of it"
    )


def _kept_transitions(
    config: TransitionsConfig, weight: float, target: Target, keep: Keep
) -> tuple[DenseTransitions | SparseTransitions, dict[str, Any]]:
    """Load transitions; those of a named folder are cached, the store's are memory-mapped."""
    if config.path is None or not Path(config.path).exists():
        return log_transitions(config, weight, target)
    of = content_hash(Path(target.codec.path))
    key = ("transitions", repr(config), weight, of, target.vocab_size, target.device)
    return keep(key, config.path, lambda: log_transitions(config, weight, target))


def log_transitions(
    config: TransitionsConfig, weight: float, target: Target
) -> tuple[DenseTransitions | SparseTransitions, dict[str, Any]]:
    """Transitions between the target's codes on its device, and facts about them."""
    codec = (target.codec.name, Path(target.codec.path))
    logs, facts = transitions(config, codec, target.n_codes)
    arrays = (logs.offsets, logs.columns, logs.seen, logs.row, logs.column)
    table = TransitionTable(*(torch.from_numpy(array) for array in arrays))
    return table.on(target.device, ids=target.vocab_size, weight=weight), facts
