"""Predict speeds on GPUs, and set what an H100 did later beside it.

    python scripts/gpu_predictions.py

Prints the tables of docs/gpu.md; a test holds them against each other. Predictions are from data
sheets and from captured steps of an early version (results/bench/h100_step.json). What was measured
afterwards is in gpu_nvidia_h100_80gb_hbm3.json (commit 737f69ca) and h100_rounds.json beside that.
"""

import json
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from speculative_tts.bench.figures import grid
from speculative_tts_benchmarks.gpu_limits import recurrent_weights, weights, work
from speculative_tts_benchmarks.sizes import SIZES

BENCH = Path(__file__).parents[1] / "results" / "bench"
MEASURED, ROWS, ROUNDS = "h100_step.json", "gpu_nvidia_h100_80gb_hbm3.json", "h100_rounds.json"
LARGE = "c729cc02"  # the commit that LLaSA-8B was measured of: later time went to others
DRAFTERS = {"draft": "lm", "recurrent": "recurrent"}  # of a row, and as h100_rounds.json has it
CARDS = {"H100 SXM": 3350, "A100 SXM, 80 GB": 2039, "RTX 4090": 1008, "RTX 3090": 936, "L40S": 864}
H100 = "H100 SXM"
TFLOPS, NODE = 989.4, 1.18  # an H100's, dense bfloat16; us of a kernel that does nothing, measured
ITEM, CONTEXT = 2, 300  # bytes of a bfloat16; positions that measured steps attended to
TOKENS, EMITTED, DRAFTED = 400, 3.26, 3  # of an utterance; of a round, and drafted for it
RATE = 0.865  # of drafted tokens that pass, so that a round emits so many
SAMPLERS = (93, 25)  # us of a distribution: as measured at edcb473, and as it is written for now
STEPS = ("final 1x1", "final 1x4", "8x1", "64x1", "64x4")  # rows x new positions
FEW = 16  # rows whose layers are five kernels, of more they are eight
GOALS = {
    "cosyvoice2": (2000, 2400, 3500),
    "llasa_1b": (1000, None, None),
    "llasa_8b": (190, 450, None),
}
TINY = {"tiny": 12, "tiny_fine": 24, "sentences": 24}  # layers


def cards() -> list[str]:
    """Return tokens a second at batch 1 if reading the weights took all the time."""
    read = [work(size, 1, 0, ITEM)["bytes_per_step"] for size in SIZES.values()]
    rows = [
        (name, f"{speed:,}", *(f"{speed * 1e9 / one:,.0f}" for one in read))
        for name, speed in CARDS.items()
    ]
    return grid(("card", "GB/s", *(_short(name) for name in SIZES)), rows)


def limits() -> list[str]:
    """Return what measured steps take of an H100's limits."""
    rows = []
    for name, size in SIZES.items():
        steps, layers = _measured(name)["steps_us"], size.config.layers
        for step in STEPS:
            batch, new = map(int, step.removeprefix("final ").split("x"))
            taken, given = steps[step], work(size, batch * new, CONTEXT, ITEM)
            least = (  # us of each limit
                given["bytes_per_step"] / CARDS[H100] / 1e3,
                given["operations_per_step"] / TFLOPS / 1e6,
                NODE * ((5 if batch * new <= FEW else 8) * layers + 3),
            )
            shares = (_share(us / taken) for us in least)
            rows.append((_short(name), batch, new, f"{taken:,.0f}", *shares))
    head = ("size", "rows", "new positions", "us", "memory", "arithmetic", "launches")
    return grid(head, rows)


def rounds() -> list[str]:
    """Return tokens a second of an H100 at batch 1, predicted and measured, and the goals."""
    rows = []
    for name, goals in GOALS.items():
        drafting = {f"{_short(name)} alone": 0.0, **_drafted(name)}
        drafters = ("", "draft", "recurrent")
        for (system, each), drafter, goal in zip(drafting.items(), drafters, goals, strict=False):
            if goal is not None:
                speeds = [_speed(name, each, sampler) for sampler in SAMPLERS]
                speeds += [_found(name, drafter), goal]
                rows.append((system, *(f"{speed:,.0f}" for speed in speeds)))
    return grid(("", *(f"sampler {us} us" for us in SAMPLERS), "measured", "goal"), rows)


def _found(name: str, drafter: str) -> float:
    """Return the tokens a second that were measured: alone, or with 86.5 % of drafts accepted."""
    for row in _read(ROWS)["sizes"].get(name, {"rows": []})["rows"]:
        drafts = "" if row["rate"] is None else "recurrent" if row["recurrent"] else "draft"
        rate = row["rate"] in (None, RATE)
        if (row["batch"], row["captured"], drafts, rate) == (1, True, drafter, True):
            return float(row["tokens"] / (row["prefill_seconds"] + row["step_seconds"]))
    kind = DRAFTERS.get(drafter, "alone")
    speed: float = _read(ROUNDS)[LARGE]["rows"][f"{name} {kind} 1"]["tokens_s"]
    return speed


def lighter() -> list[str]:
    """Return what lighter drafts of LLaSA-8B would bring: its measured round, less what they read.

    Weights are read at the speed that this memory was measured at; a head may be cut to some ids.
    """
    size, found = SIZES["llasa_8b"], _read(ROUNDS)[LARGE]["rows"]["llasa_8b lm 1"]
    speed = _read(ROWS)["bytes_per_second"] / 1e6  # bytes a us
    head = ITEM * size.speech * size.config.hidden
    layer = (ITEM * weights(size, 1) - head) / 1e9
    block = 3 * ITEM * size.config.hidden**2 / 1e9  # of a recurrent layer as wide as the target
    head /= 1e9
    drafts = {
        "3 layers": 3 * layer + head,
        "1 layer": layer + head,
        "a recurrent layer, 8 times as wide": 8 * block + head,
        "4 times as wide, head of a quarter of the ids": 4 * block + head / 4,
        "2 times as wide, head of a quarter of the ids": 2 * block + head / 4,
    }
    others = found["us_a_step"] - DRAFTED * drafts["3 layers"] * 1e9 / speed
    rows = []
    for name, read in drafts.items():
        lasts = others + DRAFTED * read * 1e9 / speed
        each = ((TOKENS - 1) / found["rounds"], EMITTED)
        speeds = [
            TOKENS / (found["prefill_seconds"] + (TOKENS - 1) / n * lasts / 1e6) for n in each
        ]
        rows.append((name, f"{read:.2f}", f"{lasts:,.0f}", *(f"{one:.0f}" for one in speeds)))
    emitted = (f"{(TOKENS - 1) / found['rounds']:.2f} a round", f"{EMITTED} a round")
    return grid(("draft", "GB a drafted token", "us a round", *emitted), rows)


def tiny() -> dict[str, tuple[float, float]]:
    """Return predicted tokens a second of the tiny targets alone on an H100, by sampler.

    A kernel is given the time it takes in the CosyVoice 2 size's step, whose weights are larger.
    """
    layers = SIZES["cosyvoice2"].config.layers
    each = _measured("cosyvoice2")["steps_us"]["final 1x1"] / (5 * layers + 3)
    slow, fast = ({n: 1e6 / ((5 * c + 3) * each + us) for n, c in TINY.items()} for us in SAMPLERS)
    return {name: (slow[name], fast[name]) for name in TINY}


def tiny_table() -> list[str]:
    """Return `tiny` as a table, beside what one of them did."""
    found = {"tiny_fine": f"{median(_spoken()):,.0f}"}
    rows = [
        (name, *(f"{one:,.0f}" for one in both), found.get(name, ""))
        for name, both in tiny().items()
    ]
    return grid(("target alone", *(f"sampler {us} us" for us in SAMPLERS), "measured"), rows)


def _spoken() -> list[float]:
    """Return the tokens a second of each timed utterance of the fine target alone."""
    heard = _read(ROUNDS)["737f69ca"]["decode tiny_fine"]["target-s0"]
    return [one["tokens"] / one["lm_seconds"] for one in heard]


def _drafted(name: str) -> dict[str, float]:
    """Return the us of DRAFTED tokens by drafter, without their sampler.

    A pass of a draft, the first of two positions, takes its share of the layers and a head; one of
    a recurrent layer the share of a step that it reads of the weights.
    """
    size, steps = SIZES[name], _measured(name)["steps_us"]
    whole, inside = steps["final 1x1"], steps["final hidden 1x1"]
    layers, head = len(size.draft), whole - inside
    share = layers / size.config.layers
    draft = share * (steps["final 1x2"] - head + (DRAFTED - 1) * inside) + DRAFTED * head
    read = ITEM * recurrent_weights(size) / work(size, 1, 0, ITEM)["bytes_per_step"]
    return {
        f"with a draft of {layers} layers": draft,
        "with a recurrent layer": DRAFTED * whole * read,
    }


def _speed(name: str, drafting: float, sampler: float) -> float:
    """Return tokens a second: a prefill, then steps, or rounds where drafting takes time."""
    found = _measured(name)
    prefill = 1e3 * min(one["prefill_ms"] for one in found["loops"]["1"])
    step, emitted = found["steps_us"]["final 1x1"] + sampler, 1.0
    if drafting:
        step = found["steps_us"]["final 1x4"] + drafting + (DRAFTED + 1) * sampler
        emitted = EMITTED
    return 1e6 * TOKENS / (prefill + (TOKENS - 1) / emitted * step)


def _measured(name: str) -> dict[str, Any]:
    """Return what the H100 was measured with of one size."""
    sizes: dict[str, dict[str, Any]] = _read(MEASURED)["sizes"]
    return sizes[name]


@cache
def _read(name: str) -> dict[str, Any]:
    """Return a file of results/bench."""
    found: dict[str, Any] = json.loads((BENCH / name).read_text(encoding="utf-8"))
    return found


def _share(share: float) -> str:
    """Write a share as a table has it."""
    return "<1 %" if share < 0.01 else f"{share:.0%}".replace("%", " %")


def _short(name: str) -> str:
    """Return a size's name in a table."""
    return f"{SIZES[name].title.split(',')[0]} size"


if __name__ == "__main__":
    for made in (cards(), limits(), rounds(), lighter(), tiny_table()):
        print("\n".join(made), end="\n\n")
