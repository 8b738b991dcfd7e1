"""Time whole continuations of several systems, and single steps of one engine."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from speculative_tts.caches.groups import transpose
from speculative_tts.costs.timer import clock_of, median_seconds, medians
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.engine import Engine
from speculative_tts.decoding.loops.speculation import verify
from speculative_tts.decoding.rules.group import Group
from speculative_tts.decoding.sampling.randomness import draw
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.heads import Heads
from speculative_tts.models.host import with_threads
from speculative_tts.models.speech_lm import SpeechLM

OURS = "autoregressive"
LOOKAHEADS = range(1, 9)  # lookaheads whose verification is timed
# PCG's target: tokens, mean group size, positions verified at once; threads
GROUP_RULE = (65_536, 140, 4, 2)


@dataclass(frozen=True)
class Continuation:
    """One continuation to time, as a request of this engine and as ids for other engines."""

    request: Request
    ids: list[int]

    @property
    def tokens(self) -> int:
        """The number of tokens to add."""
        return self.request.max_tokens

    @property
    def first(self) -> "Continuation":
        """Return a continuation by one token, whose time is that of the prompt."""
        request = replace(self.request, min_tokens=1, max_tokens=1)
        return Continuation(request, self.ids)


@dataclass(frozen=True)
class Spent:
    """The cost of one continuation: seconds by the clock, and seconds that cores worked."""

    seconds: float
    cores: float


Decode = Callable[[Continuation], float]  # returns its seconds
Times = dict[str, list[Spent]]  # of each prompt, by system


def continuations(
    systems: Mapping[str, Decode], prompts: list[Continuation], progress: Callable[[], None]
) -> Times:
    """Time each prompt by each system in turn, so that a machine's drift affects all alike.

    The first prompt is run once by each before the clock counts.
    """
    for run in systems.values():
        run(prompts[0])
    spent: Times = {name: [] for name in systems}
    for prompt in prompts:
        for name, run in systems.items():
            begin = time.process_time()
            seconds = run(prompt)
            spent[name].append(Spent(seconds, time.process_time() - begin))
        progress()
    return spent


def joined(times: Sequence[Times]) -> Times:
    """Return the times of several processes as those of one, process after process."""
    return {name: [one for own in times for one in own[name]] for name in times[0]}


def drafts(engine: Engine) -> bool:
    """Return True if the target has a draft other than itself."""
    return engine.draft not in {None, engine.target}


@torch.inference_mode()
def step_costs(
    engine: Engine, heads: Heads | None, context: int, block: int, repeats: int
) -> dict[str, float]:
    """Return the median seconds of each part of a round at `context` cached positions, batch 1.

    On one core they are seconds of the core, as a round's are. `block` is how many tokens a pass of
    multi-token prediction is fed.
    """
    assert engine.speculation is not None, "built to speculate"
    rule, k, draft = engine.speculation.rule, engine.speculation.lookahead, engine.draft
    device, vocab = engine.target.device, engine.target.vocab_size
    start = torch.tensor([context], device=device)
    fed = max(k + 1, block, LOOKAHEADS[-1] + 1)
    room = context + fed + 1
    caches = [m.cache(1, room) for m in (engine.target, draft or engine.target)]
    ids = torch.zeros(1, fed, dtype=torch.int64, device=device)
    rows = torch.softmax(
        torch.randn(2, k + 1, vocab, generator=torch.Generator().manual_seed(0)), -1
    )
    target_probs, draft_probs = rows[:1].to(device), rows[1:, :k].to(device)
    random = torch.full((1, k, 2), 0.5, dtype=torch.float64, device=device)
    length = torch.tensor([k], device=device)

    def accept() -> None:
        verdict = verify(rule, target_probs, draft_probs, ids[:, :k], length, random)
        draw(verdict.next_probs, random[:, 0, 0])

    def extend(model: SpeechLM, new: int, cache: Any) -> Tensor:
        return model.extend(ids[:, :new], cache, start)

    parts: dict[str, Callable[[], object]] = {
        "target step (1 token)": partial(extend, engine.target, 1, caches[0]),
        **{  # look-up drafts for every target
            verify_step(n): partial(extend, engine.target, n + 1, caches[0])
            for n in sorted({*LOOKAHEADS, k})
        },
        block_step(block): lambda: engine.target.extend(ids[:, :block], caches[0], start, keep=1),
    }
    if heads is not None:
        hidden = engine.target.extend_hidden(ids[:, :1], caches[0], start)[:, -1]
        parts[f"heads ({heads.n})"] = lambda: heads(hidden)
    if draft is not None and drafts(engine):
        parts |= {
            "draft step (1 token)": partial(extend, draft, 1, caches[1]),
            "draft step (2 tokens)": lambda: draft.extend(ids[:, :2], caches[1], start, keep=1),
            "accept": accept,
        }
    return medians(parts, repeats, clock_of(device))


def verify_step(lookahead: int) -> str:
    """Name the target's pass over drafted tokens and the one before them in `step_costs`."""
    return f"verify ({lookahead + 1} tokens)"


def block_step(block: int) -> str:
    """Name the target's pass over a block in `step_costs`."""
    return f"target pass ({block} tokens)"


@torch.inference_mode()
def group_rule_costs(
    tokens: int, mean_size: int, positions: int, threads: int, repeats: int, device: torch.device
) -> dict[str, float]:
    """Time one verification by groups that ends in a rejection, the dearest case; median seconds.

    Synthetic laws over `tokens` ids, with and without top-k, and groups of `mean_size` on average;
    `positions` counts the one behind the drafted tokens. Batch 1.
    """
    rule = synthetic_groups(tokens, mean_size, device)
    generator = torch.Generator().manual_seed(0)
    target = 3 * torch.randn(1, positions, tokens, generator=generator)
    draft = target + torch.randn(1, positions, tokens, generator=generator)
    places = torch.zeros(1, positions, dtype=torch.int64, device=device)
    stop = StopRule.build((), tokens, [0], device)
    random = torch.full((1, positions - 1, 2), 1 - 2.0**-24, dtype=torch.float64, device=device)
    length = torch.tensor([positions - 1], device=device)
    costs = {}
    for name, sampler in (("top-k 50", Sampler(top_k=50)), ("no top-k", Sampler())):
        q, p = (sampler(x.to(device), places, places, stop) for x in (target, draft))
        p = p[:, :-1].contiguous()
        drafted = torch.multinomial(p[0].cpu(), 1, generator=generator).T.to(device)

        def accept(q: Tensor = q, p: Tensor = p, drafted: Tensor = drafted) -> Tensor:
            return verify(rule, q, p, drafted, length, random).next_probs

        with with_threads(threads):
            costs[name] = median_seconds(accept, repeats)
    return costs


def synthetic_groups(tokens: int, mean_size: int, device: torch.device) -> Group:
    """Make a group per token, with log-normal sizes of that mean and random members."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.empty(tokens).log_normal_(0, 0.7, generator=generator)
    sizes = (sizes * mean_size / sizes.mean()).round().long().clamp(1, tokens)
    order = torch.randperm(tokens, generator=generator)
    owner = torch.repeat_interleave(sizes)
    step = torch.arange(len(owner)) - (sizes.cumsum(0) - sizes)[owner]
    key, _ = (owner * tokens + order[(owner + step) % tokens]).sort()
    offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]).int()
    members = (key % tokens).int()
    back = transpose(offsets, members, tokens)
    return Group(*(x.to(device) for x in (*back, offsets, members)))
