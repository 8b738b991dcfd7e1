"""Build the systems that sst-bench times, and find the best lookahead of each drafter."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from speculative_tts.assets import named
from speculative_tts.bench.engine import OURS, Continuation, Decode, drafts
from speculative_tts.costs.lookahead import LookaheadCost, best, table
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.drafters.heads import HeadsDrafter
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.drafters.lookup import LookupDrafter
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.model_cache import ModelCache
from speculative_tts.models.heads import Heads, load_heads
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.schema.decode import PathMode, System
from speculative_tts.schema.drafters import (
    BlockDrafterConfig,
    CodebooksDrafterConfig,
    HeadsDrafterConfig,
    LMDrafterConfig,
    LookupDrafterConfig,
    RecurrentDrafterConfig,
)
from speculative_tts.schema.rules import ExactRule, ToleranceRule

SSD = ToleranceRule(beta=0.4)  # the paper's
BLOCKS = (4, 8)  # tokens per pass of multi-token prediction, unverified
DRAFTED = {PathMode.none: "heads", PathMode.sample: "path of heads"}  # drafting heads
PROBED = 5  # prompts on which lookaheads are compared
Lookaheads = Mapping[str, Sequence[int]]  # to be timed, by drafter and rule


def lookaheads(
    engines: Mapping[str, Engine], prompts: Sequence[Continuation]
) -> dict[str, list[LookaheadCost]]:
    """Return what each lookahead costs and brings, by drafter and rule, on a few prompts."""
    requests = [prompt.request for prompt in prompts[:PROBED]]
    return {name: table(engine, requests) for name, engine in engines.items()}


def drafted(config: BenchConfig, pays: Mapping[str, list[LookaheadCost]]) -> Lookaheads:
    """Return the lookaheads to time of every drafter and rule: the one asked for, the best one."""
    asked = () if config.seeks_lookahead else (int(config.lookahead),)
    return {
        name: [k for k in dict.fromkeys((*asked, best(rows).lookahead)) if k <= len(rows)]
        for name, rows in pays.items()
    }


def ours(
    config: BenchConfig,
    base: Engine,
    kept: ModelCache,
    engines: Mapping[str, Engine],
    drafted: Lookaheads,
) -> dict[str, Decode]:
    """Return systems by name: the target alone, every drafter and rule, unverified blocks."""
    systems = {OURS: _of(base, System.target)} | {
        f"{name}, lookahead {lookahead}": _at(engines[name], lookahead)
        for name, several in drafted.items()
        for lookahead in several
    }
    return systems | _blocks(config, base, kept)


def speculative(config: BenchConfig, base: Engine, kept: ModelCache) -> dict[str, Engine]:
    """Build engines of the exact, SSD's and the asked rule, with the draft and the recurrent layer.

    Heads, look-up and other drafters draft for the exact rule, and for the asked one if they are
    asked for themselves.
    """
    made: dict[str, Engine] = {}
    for name, drafting in _drafters(config, base):
        every = isinstance(drafting["drafter"], LMDrafterConfig | RecurrentDrafterConfig)
        itself = type(drafting["drafter"]) is type(config.drafter)
        asked = (config.rule,) if every or itself else ()
        for rule in (ExactRule(), *((SSD,) if every else ()), *asked):
            one = dataclasses.replace(config, lookahead=1, rule=rule, **drafting)
            made[", ".join([" ".join(rule.label), *name])] = Builder(one, kept).engine()
    return made


def _drafters(config: BenchConfig, base: Engine) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Yield the drafters that there are, and the asked one: its name, if any, and its settings."""
    asked = config.drafter
    lm = asked if isinstance(asked, LMDrafterConfig) else LMDrafterConfig()
    if drafts(base):
        yield lm.label, {"drafter": lm}
    recurrent = layer_of(config)
    if recurrent is asked or Path(recurrent.path).is_dir():
        yield [" ".join(recurrent.label)], {"drafter": recurrent}
    if isinstance(asked, HeadsDrafterConfig) or heads_of(config, base) is not None:
        for mode, name in DRAFTED.items():
            path = dataclasses.replace(config.viterbi, mode=mode)
            yield [name], {"drafter": HeadsDrafterConfig(), "viterbi": path}
    lookup = asked if isinstance(asked, LookupDrafterConfig) else LookupDrafterConfig()
    yield ["look-up"], {"drafter": lookup}
    if isinstance(asked, BlockDrafterConfig | CodebooksDrafterConfig):
        yield [asked.name], {"drafter": asked}


def layer_of(config: BenchConfig) -> RecurrentDrafterConfig:
    """Return the recurrent layer that is asked for, else the one that stands beside the draft."""
    asked = config.drafter
    return asked if isinstance(asked, RecurrentDrafterConfig) else config.recurrent


def weights(base: Engine, engine: Engine) -> int | None:
    """Return the bytes of weights that a drafter adds, without a second model's embedding.

    Those of a block drafter are not counted: None.
    """
    assert engine.speculation is not None
    match engine.speculation.drafter:
        case RecurrentDrafter(layer=layer):
            return layer.nbytes
        case HeadsDrafter(heads=heads):
            return heads.nbytes
        case LMDrafter():
            assert base.draft is not None
            return base.draft.step_bytes
        case LookupDrafter():
            return 0
    return None


def bytes_read(base: Engine, engines: Mapping[str, Engine]) -> dict[str, int]:
    """Return the bytes of weights that a step of each model reads."""
    found = {"target": base.target.step_bytes}
    if base.draft is not None and drafts(base):
        found["draft"] = base.draft.step_bytes
    if (recurrent := engines.get("exact, recurrent")) is not None:
        found["recurrent"] = weights(base, recurrent) or 0
    return found


def _blocks(config: BenchConfig, base: Engine, kept: ModelCache) -> dict[str, Decode]:
    """Return systems of multi-token prediction by the target's heads, if it has any."""
    heads, found = heads_of(config, base), {}
    for n in (n for n in BLOCKS if heads is not None and n <= heads.n):
        few = dataclasses.replace(config, heads=dataclasses.replace(config.heads, n=n))
        engine = Builder(few, kept).engine(System.multi_token)
        found[f"{n} heads unverified, {config.viterbi.mode.name} path"] = _of(
            engine, System.multi_token
        )
    return found


def _at(engine: Engine, lookahead: int) -> Decode:
    assert engine.speculation is not None
    speculation = dataclasses.replace(engine.speculation, lookahead=lookahead)
    return _of(dataclasses.replace(engine, speculation=speculation), System.speculative)


def _of(engine: Engine, system: System) -> Decode:
    return lambda prompt: engine.decode(system, [prompt.request]).seconds


def heads_of(config: BenchConfig, engine: Engine) -> Heads | None:
    """Load the target's multi-token heads; None if they or their transitions do not exist."""
    if heads_need(config):
        return None
    dtype = getattr(torch, config.runtime.dtype.value)
    folder, target = Path(str(config.heads.path)), Path(config.target.path)
    return load_heads(folder, None, target=target, dtype=dtype, device=engine.target.device)


def heads_need(config: BenchConfig) -> dict[str, str]:
    """Return by setting the command that makes its folder, of those that heads need and lack."""
    target, codec = named(config.target.path), config.codec
    train = f"sst-train-heads target.path={target} codes=<codes> n={config.heads.n} out=<folder>"
    count = (
        f"sst-precompute cache=transitions codec.name={codec.name} codec.path={named(codec.path)} "
        "transitions.codes=<codes> export=<folder>"
    )
    needs = {
        "heads.path": (config.heads.path, train),
        "viterbi.transitions.path": (config.viterbi.transitions.path, count),
    }
    return {
        f"{key}={named(str(path)) if path else 'null'}": command
        for key, (path, command) in needs.items()
        if not (path and Path(path).is_dir())
    }


def heads_missing(config: BenchConfig) -> str:
    """Say in a line why heads are not timed and how to make what they lack; empty if they are."""
    need = heads_need(config)
    if not need:
        return ""
    commands = " and ".join(f"`{command}`" for command in need.values())
    absent = f"{' and '.join(need)} {'are no folders' if len(need) > 1 else 'is no folder'}"
    return f"Heads are left out, {absent}: make them with {commands}, and name them."
