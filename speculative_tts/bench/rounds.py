"""Tabulate what a round costs and brings at each lookahead, over the processes of a bench."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from speculative_tts.bench.engine import verify_step
from speculative_tts.bench.figures import cell, grid

POSITIONS = 3  # drafted positions that the drafters' table shows
Part = Mapping[str, Any]  # what one process measured beside whole continuations, as JSON values


@dataclass(frozen=True)
class Round:
    """A round of one lookahead as one process measured it."""

    lookahead: int
    seconds: float
    tokens: float
    speedup: float  # over the target alone, both without the prompt
    verification: float  # seconds

    @classmethod
    def of(cls, row: Mapping[str, Any], part: Part) -> "Round":
        """Read a row of a process's lookaheads."""
        k = row["lookahead"]
        verification = part["steps"][verify_step(k)]
        return cls(k, row["round_seconds"], row["tokens"], row["speedup"], verification)

    @property
    def alone(self) -> float:
        """Seconds per token of the target alone, without its prompt."""
        return self.speedup * self.seconds / self.tokens

    @property
    def drafted(self) -> float:
        """The cost of a drafted token in target steps: a round less its verification.

        Below 0 where a pass that Python calls is dearer than one within a native round.
        """
        return (self.seconds - self.verification) / self.lookahead / self.alone

    @property
    def bound(self) -> float:
        """The speedup if every drafted token were accepted."""
        return self.speedup * (self.lookahead + 1) / self.tokens


Rounds = list[list[Round]]  # by lookahead from 1 on, then by process


def rounds(parts: Sequence[Part], name: str) -> Rounds:
    """Return the rounds of one drafter and rule."""
    read = ([Round.of(row, part) for row in part["lookaheads"][name]] for part in parts)
    return [list(each) for each in zip(*read, strict=True)]


def _fastest(several: Rounds) -> list[Round]:
    """Return the rounds of the lookahead with the most tokens per second, by the mean."""
    return max(several, key=lambda each: fmean(one.tokens / one.seconds for one in each))


def drafter_lines(result: Mapping[str, Any]) -> list[str]:
    """Tabulate each drafter's bytes, cost and accuracy under the exact rule.

    The last column is the speed at its best lookahead if every token were accepted, an upper bound
    for drafters of its cost.
    """
    shown = []
    for name, size in result["drafters"].items():
        several = rounds(result["parts"], name)
        most = several[min(POSITIONS, len(several)) - 1]
        passed = [1.0, *(b - a for a, b in pairwise([1.0, *map(_tokens, several)]))]
        rates = [f"{b / a:.2f}" if a else "-" for a, b in pairwise(passed)]
        chosen = _fastest(several)
        bounds = [max(one.bound for one in process) for process in zip(*several, strict=True)]
        megabytes = "-" if size is None else f"{size / 1e6:.1f}"
        cells = [name, megabytes, cell([one.drafted for one in most], "z.2f", signed=True)]
        cells += [*rates, *["-"] * POSITIONS][:POSITIONS]
        speedup = cell([one.speedup for one in chosen], ".2f")
        shown.append((*cells, chosen[0].lookahead, speedup, cell(bounds, ".2f")))
    head = ["drafter, exact rule", "its weights, MB", f"a drafted token of {POSITIONS}, steps"]
    head += [f"passes at {position}" for position in range(1, POSITIONS + 1)]
    head += ["best lookahead", "x autoregressive", "were all to pass"]
    return ["", *grid(head, shown)] if shown else []


def lookahead_lines(result: Mapping[str, Any]) -> list[str]:
    """Tabulate each lookahead's round, verification, drafted token, acceptance and speed.

    The last of `k` tokens is accepted in the shown share of the rounds that drafted it.
    """
    lines = []
    clock = "core ms" if result["threads"] == 1 else "ms"
    head = [f"a round, {clock}", f"verification, {clock}", "a drafted token, steps"]
    head += ["the last one passes", "tokens a round", "x autoregressive"]
    for name in result["parts"][0]["lookaheads"]:
        several, shown, before = rounds(result["parts"], name), [], 1.0
        chosen = _fastest(several)
        for each in several:
            k, tokens = each[0].lookahead, _tokens(each)
            costs = [cell([1000 * one.seconds for one in each], ".3f")]
            costs += [cell([1000 * one.verification for one in each], ".3f")]
            costs += [cell([one.drafted for one in each], "z.2f", signed=True)]
            gains = f"{tokens - before:.2f}", f"{tokens:.2f}"
            speedup = cell([one.speedup for one in each], ".2f")
            shown.append((f"**{k}**" if each is chosen else k, *costs, *gains, speedup))
            before = tokens
        lines += ["", *grid((f"{name}: lookahead", *head), shown)]
    return lines


def _tokens(each: Sequence[Round]) -> float:
    """Return the tokens of a round, which only an engine's chance could make differ."""
    return fmean(one.tokens for one in each)
