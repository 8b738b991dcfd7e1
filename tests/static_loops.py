"""Loops of small random decoders: every rule, sampler and drafter that steps may be captured of."""

import copy
from enum import Enum
from functools import partial
from typing import Any

import torch
from decoders import HIDDEN, STOPS, VOCAB, build, state
from group_laws import Cover
from head_stubs import choosers, layer_tensors
from torch import Tensor
from valle_golden import small_valle

from speculative_tts.decoding.batch import Request, Size
from speculative_tts.decoding.drafters.drafter import Drafter
from speculative_tts.decoding.drafters.heads import HeadsDrafter
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.drafters.lookup import LookupDrafter
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter
from speculative_tts.decoding.loops.graphs import Loop
from speculative_tts.decoding.loops.multi_token import Blocks
from speculative_tts.decoding.loops.one_by_one import Autoregression
from speculative_tts.decoding.loops.speculation import Rounds, Speculation
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.block import BlockRule
from speculative_tts.decoding.rules.group import Group
from speculative_tts.decoding.rules.relaxed import Divergence, Dynamic, Neighbours, Top, Typical
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models import host
from speculative_tts.models.decoder.matrix import Dense
from speculative_tts.models.families.valle.lm import ValleLM
from speculative_tts.models.heads import Heads, HeadTensors
from speculative_tts.models.recurrent import RecurrentLayer
from speculative_tts.schema.decode import Repetition

COVER = tuple(tuple(range(k, min(k + 5, VOCAB))) for k in range(0, VOCAB, 3))
LOOKAHEAD = 3
SAMPLERS = {
    "all": Sampler(),
    "greedy": Sampler(0.0),
    "top-k and top-p": Sampler(0.9, 12, 0.9),
    "ends when likeliest": Sampler(1.0, 20, 1.0, end_when_likeliest=True),
    "penalty": RepetitionPenalty(1.0, 12, 0.9, penalty=1.3),
    "ras": RepetitionAware(1.0, 10, 0.8, window=6, tau=0.2),
    "ras, older": RepetitionAware(1.0, 10, 0.8, variant=Repetition.redraw_eos, barred=STOPS[:1]),
}
DRAFTERS = ("lm", "adaptive", "lookup", "recurrent", *choosers(VOCAB, STOPS, Sampler()))
GROUPS: Group = Cover(VOCAB, COVER, (1.0,) * len(COVER)).rule(
    partial(Group, readable=host.readable)  # type: ignore[arg-type]
)
RULES: dict[str, AcceptanceRule] = {
    "exact": Tolerance(0.0),
    "tolerance": Tolerance(0.3),
    "groups": GROUPS,
    "block": BlockRule(),
    "block of groups": BlockRule(GROUPS),
    "typical": Typical(),
    "top": Top(5, 0.1),
    "divergence": Divergence(),
    "neighbours": Neighbours((torch.arange(VOCAB)[:, None] + torch.tensor([1, 2])) % VOCAB),
    "dynamic": Dynamic(torch.linspace(0, 3, VOCAB)[:, None]),
}


def heads(seed: int = 8) -> Heads:
    generator = torch.Generator().manual_seed(seed)
    return Heads(HeadTensors(0.5 * torch.randn(LOOKAHEAD + 1, VOCAB, 32, generator=generator)))


def speculation(rule_name: str, sampler: str, drafter: str) -> Speculation:
    weights, chosen = state(3), SAMPLERS[sampler]
    target = build(weights)
    who: Drafter = LMDrafter(build(weights, (0, 2, 5)), 1.0 if drafter == "adaptive" else None)
    if drafter == "lookup":
        who = LookupDrafter(VOCAB, torch.device("cpu"))
    elif drafter == "recurrent":
        layer = RecurrentLayer(layer_tensors(HIDDEN), target.head, torch.float32)
        who = RecurrentDrafter(target, layer)
    elif drafter not in ("lm", "adaptive"):
        who = HeadsDrafter(heads(), choosers(VOCAB, STOPS, chosen)[drafter])
    return Speculation(target, who, RULES[rule_name], chosen, STOPS, LOOKAHEAD)


def rounds(made: Speculation, given: list[Request]) -> Rounds:
    """After the first token."""
    loop = made.looping().make(Size.of(given, LOOKAHEAD))
    loop.load(given)
    return loop


def other_loops() -> dict[str, Loop]:
    """Of one token a step, and of a block of heads'."""
    target, size, valle = build(state(3)), Size(3, 60, 50), ValleLM(small_valle().ar)
    one_by_one = {
        name: Autoregression(target, STOPS, sampler, size) for name, sampler in SAMPLERS.items()
    }
    blocks = {
        name: Blocks(target, heads(), chooser, STOPS, size)
        for name, chooser in choosers(VOCAB, STOPS, Sampler()).items()
    }
    last = Autoregression(valle, valle.stop_ids, Sampler(), size)
    return {**one_by_one, **blocks, "VALL-E": last}


def moved(x: Any, device: torch.device) -> Any:
    """The same with every tensor in it, and in what it has, on another device."""
    if isinstance(x, Tensor):
        return x.to(device) if x.layout is torch.strided else None
    if isinstance(x, torch.device):
        return device
    if isinstance(x, Dense | torch.nn.Module):
        return remade(x, device) if isinstance(x, Dense) else copy.deepcopy(x).to(device)
    if isinstance(x, list | tuple | dict):
        parts = [moved(part, device) for part in (x.values() if isinstance(x, dict) else x)]
        made = parts if not isinstance(x, dict) else zip(x, parts, strict=True)
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(made)
    if not type(x).__module__.startswith(("speculative_tts", "head_stubs")) or isinstance(x, Enum):
        return x
    twin = copy.copy(x)
    for name, value in vars(x).items():
        object.__setattr__(twin, name, moved(value, device))
    return twin


def remade(x: Dense, device: torch.device) -> Dense:
    """The same matrix on another device: a GPU's weights are laid out when they are made."""
    return Dense(x.dense().to(device), None if x.bias is None else x.bias.to(device))
