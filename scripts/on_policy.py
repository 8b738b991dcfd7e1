"""What a drafter learns from: recorded codes, the target's own, or those as its own drafts go.

python scripts/on_policy.py data/tiny runs/own-fine runs/on_policy

Trains the fine target's recurrent layer from nothing on each of them, by two losses and with two
seeds, decodes the dev list by the exact rule, and prints tokens a round with paired differences
(results/on_policy.md). About an hour of a core; resumable.
"""

import subprocess
import sys
from itertools import product
from pathlib import Path

from speculative_tts.evaluation.compare import Comparison, compare
from speculative_tts.progress import progress

SEEDS = (0, 1)
LOSSES = {"cross entropy": "{ce:1.0,kl:0.0}", "KL to the target": "{ce:0.0,kl:1.0}"}
DATA = {
    "recorded": ["codes_from=recorded"],
    "the target's own": ["codes_from=target"],
    "the same, as own drafts go": ["codes_from=target", "own_drafts=true"],
}
FINE = ["target=tiny_fine"]
TRAINED = ["recipe=recurrent", *FINE, "n=5", "steps=400", "sequences=1500"]
DECODED = [*FINE, "draft=paper", "codec=tiny_fine", "data=tiny_dev", "rule=exact", "lookahead=3"]
UNTIMED = ["drafter=recurrent", "timing=0", "limit=null"]
METRIC, RATE = "acceptance_length", "acceptance_rate"


def main(prepared: Path, own: Path, out: Path) -> None:
    """Train, decode, score, print."""
    cases = list(product(LOSSES, DATA, SEEDS))
    for loss, data, seed in progress(cases, desc="trainings"):
        layer = folder(out, loss, data, seed)
        learnt = [f"codes={prepared}/codes_fine", f"own={own}", *DATA[data]]
        run("train-heads", *TRAINED, *learnt, f"losses={LOSSES[loss]}", f"seed={seed}", layer)
        heard = [f"data.path={prepared}/dev/list.jsonl", f"drafter.path={layer}", f"seed={seed}"]
        run("decode", *DECODED, *UNTIMED, *heard, layer / "runs")
        run("eval", f"runs={layer}/runs", "metrics=[wer]")
    print("| loss | codes | tokens a round | accepted of drafted | gain |")
    print("|---|---|---|---|---|")
    for loss, data in product(LOSSES, DATA):
        print(row(out, loss, data))


def folder(out: Path, loss: str, data: str, seed: int) -> Path:
    """Of one training."""
    return out / f"{list(LOSSES).index(loss)}-{list(DATA).index(data)}-{seed}"


def run(command: str, *given: str | Path) -> None:
    """A command of this environment; a folder at the end is where it writes."""
    *settings, last = given
    ends = f"out={last}" if isinstance(last, Path) else last
    subprocess.run([Path(sys.executable).with_name(f"sst-{command}"), *settings, ends], check=True)


def row(out: Path, loss: str, data: str) -> str:
    """A line of the table: beside recorded codes, the gain in per cent."""
    first, *_ = DATA
    scored = {one: [runs(folder(out, loss, one, seed)) for seed in SEEDS] for one in (first, data)}
    found = compare(scored[first], scored[data], [METRIC, RATE])
    of = found[METRIC]
    assert of.a is not None
    gain = "" if data == first else percent(of, of.a)
    return f"| {loss} | {data} | {of.b:.2f} | {found[RATE].b:.2f} | {gain} |"


def runs(layer: Path) -> Path:
    """The run that was decoded with it."""
    (found,) = (path.parent for path in layer.glob("runs/*/records.jsonl"))
    return found


def percent(of: Comparison, base: float) -> str:
    """A difference with its interval in per cent of the baseline."""
    low, value, high = (100 * (part or 0) / base for part in (of.low, of.difference, of.high))
    return f"{value:+.1f} % [{low:.1f}, {high:.1f}]"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
