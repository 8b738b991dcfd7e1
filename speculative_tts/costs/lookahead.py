"""Find the fastest lookahead: seconds and tokens of rounds of 1, 2, ... drafted tokens.

A round's seconds are the decoding loop's: core seconds on one core, which other programs do not
lengthen, else clock seconds. Its tokens are computed from the acceptance of each position, counted
over the rounds of all lookaheads, so that the choice rests on hundreds of rounds and not on the
utterances of one lookahead.
"""

import dataclasses
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import torch

from speculative_tts.codecs.audio import UnfitWaveError
from speculative_tts.costs.timer import clock_of
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.loops.graphs import AnyLoop
from speculative_tts.decoding.loops.one_by_one import alone
from speculative_tts.decoding.model_cache import ModelCache
from speculative_tts.files import held
from speculative_tts.native.library import kernel_label
from speculative_tts.provenance import hardware, plain, signature, source_hash
from speculative_tts.records import ListItem, read_list, spread
from speculative_tts.runs.voices import encode_file, prompt_of
from speculative_tts.schema.common import Device
from speculative_tts.schema.decode import EngineConfig
from speculative_tts.schema.drafters import LMDrafterConfig
from speculative_tts.schema.fields import ADAPTIVE
from speculative_tts.typed import read_json, write_json

MOST = 8  # drafted tokens a round; the papers' figures end there
ENTROPY = 1.5  # nats of the draft's distribution above which adaptive drafting ends
UTTERANCES = 5  # their median tolerates one that was disturbed
SEED = 0
# Settings that decide the best lookahead, besides those that the drafter reads.
READS = ("target", "codec", "data", "sampling", "runtime", "drafter", "rule")
KEPT = "lookahead.json"
Config = TypeVar("Config", bound=EngineConfig)


@dataclass(frozen=True)
class LookaheadCost:
    """Rounds of one lookahead, batch 1, without prefill."""

    lookahead: int
    round_seconds: float
    tokens: float  # per round, from the acceptance rates of all positions
    speedup: float  # over the target alone

    @property
    def tokens_per_second(self) -> float:
        """The figure by which the lookahead is chosen."""
        return self.tokens / self.round_seconds


def best(rows: Sequence[LookaheadCost]) -> LookaheadCost:
    """Return the row with the most tokens per second."""
    return max(rows, key=lambda row: row.tokens_per_second)


@torch.inference_mode()
def table(engine: Engine, requests: Sequence[Request]) -> list[LookaheadCost]:
    """Time the rounds of each lookahead, in turn on each request so that drift affects all alike.

    Raises ValueError if no round was decoded.
    """
    assert engine.speculation is not None, "built to speculate"
    reach = min(MOST, engine.speculation.drafter.reach or MOST)
    own: list[float] = []
    costs: dict[int, list[float]] = {k: [] for k in range(1, reach + 1)}
    rounds, accepted = [0] * reach, [0] * reach
    for number, request in enumerate(requests):
        own += _step(engine, request)
        for k in [*costs][:: -1 if number % 2 else 1]:
            costs[k] += _round(engine, k, request, rounds, accepted)
    if not own or not all(costs.values()):
        raise ValueError(
            "lookahead=auto: no round was decoded; give longer texts or lookahead=<number>"
        )
    passes = [a / n if n else 0.0 for a, n in zip(accepted, rounds, strict=True)]
    tokens = {k: 1 + sum(passes[:k]) for k in costs}
    seconds = {k: median(each) for k, each in costs.items()}
    return [
        LookaheadCost(k, seconds[k], tokens[k], tokens[k] * median(own) / seconds[k]) for k in costs
    ]


def settled(
    config: Config, *, kept: ModelCache | None = None, cache: Path | None = None
) -> tuple[Config, dict[str, Any]]:
    """Replace lookahead=auto or adaptive by a number; return the facts that auto rests on too.

    A number is found once for each host, kernel, models, sampler and rule, and read from `cache`
    afterwards; without one it is measured every time.
    """
    config = written_out(config)
    if not config.seeks_lookahead:
        return config, {}
    if cache is None:
        found = _measured(config, kept)
    else:
        file = cache / f"lookahead-{cost_key(config)}" / KEPT
        with held(file.parent):  # another run with the same key waits for it
            if not file.is_file():
                write_json(file, _measured(config, kept))
        found = read_json(file)
    number = dataclasses.replace(config, lookahead=int(found["lookahead"]))
    return number, {"lookahead": found}


def written_out(config: Config) -> Config:
    """Write lookahead=adaptive out as a number and an entropy limit, so that a run has one name.

    Raises ValueError for drafters without a distribution whose entropy could be measured.
    """
    if config.lookahead != ADAPTIVE:
        return config
    drafter = config.drafter
    if not isinstance(drafter, LMDrafterConfig):
        raise ValueError(
            f"lookahead=adaptive ends drafts where a draft model is unsure, and drafter is "
            f"{drafter.name}; give drafter=lm, or lookahead=<number>"
        )
    entropy = ENTROPY if drafter.entropy is None else drafter.entropy
    drafter = dataclasses.replace(drafter, entropy=entropy)
    return dataclasses.replace(config, lookahead=MOST, drafter=drafter)


def told(found: Mapping[str, Any]) -> str:
    """Describe a found choice in a line for people."""
    made = found["lookahead"]
    (row,) = (row for row in made["rows"] if row["lookahead"] == made["lookahead"])
    return (
        f"lookahead=auto: {row['lookahead']}, {row['tokens']:.2f} tokens a round, "
        f"{row['speedup']:.2f} times the target alone (measured {made['date']})"
    )


def requests_of(engine: Engine, items: Iterable[ListItem], seed: int) -> list[Request]:
    """Make requests of a list, without those whose prompt has no voice."""
    found = []
    for item in items:
        with suppress(UnfitWaveError):
            asked = prompt_of(item, engine.target.layout, partial(encode_file, engine.codec))
            found.append(engine.request(item.id, asked, seed))
    return found


def _measured(config: EngineConfig, kept: ModelCache | None) -> dict[str, Any]:
    """Measure the table of a configuration, as JSON values."""
    engine = Builder(dataclasses.replace(config, lookahead=1), kept).engine()
    items = spread(read_list(Path(config.data.path)), UTTERANCES)
    rows = table(engine, requests_of(engine, items, SEED))
    date = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"hardware": hardware(on_gpu=config.runtime.device is Device.cuda), "date": date}
    return {"lookahead": best(rows).lookahead, "rows": [plain(row) for row in rows], **about}


def cost_key(config: EngineConfig) -> str:
    """Return a key that is equal for configurations with the same best lookahead."""
    read = (*READS, *config.drafter.reads)
    every = plain(config, identity=True)
    values = {key: value for key, value in every.items() if key in read}
    del values["runtime"]["warmup"]
    values["runtime"]["kernels"] = kernel_label(config.runtime)
    machine = hardware(on_gpu=config.runtime.device is Device.cuda)
    del machine["threads"]
    code = source_hash("decoding", "models", "native", "costs")
    number = config.heads.n if "heads" in values else None  # of heads, only n counts
    label = config.drafter.label  # the other settings of a drafter with a path
    beside = {"heads_n": number, "label": label, "hardware": machine, "code": code}
    return signature(values | beside)


def _step(engine: Engine, request: Request) -> list[float]:
    """Return seconds per token of the target alone after the first token; empty without others."""
    looping = alone(engine.target, engine.stop_ids, engine.sampler)
    loops = engine.graphs.states(looping, [request])
    seconds, loop = _behind_prefill(loops, engine)
    made = int(loop.rows.count[0]) - 1
    return [seconds / made] if made else []


def _round(
    engine: Engine, lookahead: int, request: Request, rounds: list[int], accepted: list[int]
) -> list[float]:
    """Return the seconds per round of an utterance; add its rounds and acceptances to the lists."""
    assert engine.speculation is not None
    speculation = dataclasses.replace(engine.speculation, lookahead=lookahead)
    loops = engine.graphs.states(speculation.looping(), [request])
    seconds, loop = _behind_prefill(loops, engine)
    (outcome,) = loop.outcomes()
    if outcome.failure:
        raise ValueError(outcome.failure)
    counts = outcome.counts
    both = (counts.drafted_per_position, counts.accepted_per_position)
    for position, (tried, passed) in enumerate(zip(*both, strict=True)):
        rounds[position] += max(tried, counts.rounds - 1)  # the last one may end before it
        accepted[position] += passed
    return [seconds / counts.rounds] if counts.rounds else []


def _behind_prefill(loops: Iterator[AnyLoop], engine: Engine) -> tuple[float, AnyLoop]:
    """Return the seconds of a batch after its first token, in one native call if possible."""
    device = engine.target.device
    clock = clock_of(device)
    loop = next(loops)
    begin = clock()
    loop.run_native(sys.maxsize)
    deque(loops, maxlen=0)
    return clock() - begin, loop
