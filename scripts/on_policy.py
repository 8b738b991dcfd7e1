"""Compare what a drafter learns from: five losses, recorded codes, own codes, own drafts.

python scripts/on_policy.py data/tiny runs/on_policy [runs/own-fine]

Train the fine target's recurrent layer from scratch with two seeds, decode the dev list by the
exact rule and by PCG's, and print tokens per round with paired differences (results/on_policy.md):
for each loss on recorded codes, and for two losses also on the codes of sst-own-codes. This takes
an hour and a half of a core, two and a half with own codes, and is resumable.
"""

import subprocess
import sys
from itertools import product
from pathlib import Path

from speculative_tts.evaluation.compare import Comparison, compare
from speculative_tts.progress import progress

SEEDS = (0, 1)
LOSSES = {
    "cross entropy": "{ce:1.0,kl:0.0}",
    "KL to the target": "{ce:0.0,kl:1.0}",
    "total variation": "{ce:0.0,kl:0.0,tv:1.0}",
    "-log acceptance": "{ce:0.0,kl:0.0,lk:1.0}",
    "-log acceptance by groups": "{ce:0.0,kl:0.0,group:1.0}",
}
KL = "KL to the target"
ON_OWN = ("cross entropy", KL)  # losses that also learn from own codes
DATA = {
    "recorded": ["codes_from=recorded"],
    "the target's own": ["codes_from=target"],
    "the same, as own drafts go": ["codes_from=target", "own_drafts=true"],
}
FIRST, *_ = DATA
SIZE = "mean_size=40"  # of the groups, for loss and rule
FINE = ["target=tiny_fine"]
TRAINED = ["recipe=recurrent", *FINE, "n=5", "steps=400", "sequences=1500"]
DECODED = [*FINE, "draft=paper", "codec=tiny_fine", "data=tiny_dev", "lookahead=3"]
RULES = {"exact": ["rule=exact"], "group": ["rule=group", f"rule.groups.{SIZE}"]}
UNTIMED = ["drafter=recurrent", "timing=0", "limit=null"]
METRIC, RATE = "acceptance_length", "acceptance_rate"


def main(prepared: Path, out: Path, own: Path | None = None) -> None:
    """Train, decode, score, print."""
    data = {loss: list(DATA) if own and loss in ON_OWN else [FIRST] for loss in LOSSES}
    lines = [(loss, one) for loss in LOSSES for one in data[loss]]
    cache = ["groups.cache=" + str(out / "groups"), "groups." + SIZE]
    run("precompute", "cache=groups", *FINE, "codec=tiny_fine", *cache)
    (groups,) = (out / "groups").glob("groups-*")
    for seed, (loss, one) in progress(list(product(SEEDS, lines)), desc="trainings"):
        layer = folder(out, loss, one, seed)
        learnt = [f"codes={prepared}/codes_fine", *([f"own={own}"] if own else []), *DATA[one]]
        how = [f"losses={LOSSES[loss]}", f"groups={groups}", f"seed={seed}", f"out={layer}"]
        run("train-heads", *TRAINED, *learnt, *how)
        source = [f"data.path={prepared}/dev/list.jsonl", f"drafter.path={layer}", f"seed={seed}"]
        for rule, given in RULES.items():
            run("decode", *DECODED, *given, *UNTIMED, *source, f"out={layer}/{rule}")
            run("eval", f"runs={layer}/{rule}", "metrics=[wer]")
    kl = "beside KL's"
    print(f"| loss | codes | exact | {kl} | accepted of drafted | PCG | {kl} | own codes |")
    print("|---|---|---|---|---|---|---|---|")
    for loss, one in lines:
        print(row(out, loss, one))


def folder(out: Path, loss: str, data: str, seed: int) -> Path:
    """Return the folder of one training."""
    return out / f"{list(LOSSES).index(loss)}-{list(DATA).index(data)}-{seed}"


def run(command: str, *settings: str) -> None:
    """Run a command of this environment."""
    subprocess.run([Path(sys.executable).with_name(f"sst-{command}"), *settings], check=True)


def row(out: Path, loss: str, data: str) -> str:
    """Return a table row: tokens per round by both rules against KL's, and own codes' gain."""
    cells = [loss, data]
    for rule in RULES:
        own = scored(out, loss, data, rule)
        compared = compare(scored(out, KL, FIRST, rule), own, [METRIC, RATE])
        cells += [f"{compared[METRIC].b:.2f}", percent(compared[METRIC])]
        cells += [f"{compared[RATE].b:.2f}"] if rule == "exact" else []
    recorded, own = (scored(out, loss, one, "exact") for one in (FIRST, data))
    cells += ["" if data == FIRST else percent(compare(recorded, own, [METRIC])[METRIC])]
    return f"| {' | '.join(cells)} |"


def scored(out: Path, loss: str, data: str, rule: str) -> list[Path]:
    """Return the run folders of one training, one per seed."""
    layers = [folder(out, loss, data, seed) for seed in SEEDS]
    return [path.parent for one in layers for path in one.glob(f"{rule}/*/records.jsonl")]


def percent(of: Comparison) -> str:
    """Format a difference and its interval in per cent of the baseline."""
    assert of.a
    low, value, high = (100 * (part or 0) / of.a for part in (of.low, of.value, of.high))
    return f"{value:+.1f} % [{low:.1f}, {high:.1f}]"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
