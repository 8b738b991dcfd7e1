"""Measure the core seconds of a quality run by part, of this checkout or an older one.

    python scripts/core_seconds.py runs/cost method=ssd rule.beta=0.4 timing=0 batch_size=16
    git worktree add older 22077a4 && ln -s ../configs older/speculative_tts/configs
    python scripts/core_seconds.py --checkout older runs/older system=speculative rule=tolerance \
        rule.beta=0.4 baseline=false instrument=0 batch_size=16

Decode into a new folder with these settings of sst-decode, then score with the default judges, in
separate processes, and print a table row. Seconds are of cores: other programs lengthen them
little. The tiny codec's are subtracted from the decoding that calls it; starting Python counts.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

DECODE = """
import functools, json, sys, time
from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.commands.decode import main

spent = 0.0

def counted(call):
    @functools.wraps(call)
    def run(*given):
        global spent
        begin = time.process_time()
        try:
            return call(*given)
        finally:
            spent += time.process_time() - begin
    return run

for name in ("encode", "decode"):
    setattr(TinyCodec, name, counted(getattr(TinyCodec, name)))
code = main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump(spent, file)
sys.exit(code)
"""
EVALUATE = (
    "import sys; from speculative_tts.commands.eval import main; sys.exit(main(sys.argv[1:]))"
)


def main() -> None:
    """Run both, and print the table's row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkout", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("settings", nargs="*", help="settings of sst-decode")
    given = parser.parse_args()
    given.out.mkdir(parents=True)
    noted = given.out.absolute() / "codec.json"
    decode = cores(given.checkout, DECODE, [str(noted), f"out={given.out}", *given.settings])
    codec = float(json.loads(noted.read_text()))
    judges = cores(given.checkout, EVALUATE, [f"runs={given.out}"])
    records = sum(1 for file in given.out.glob("*/records.jsonl") for _ in file.open())
    print("| utterances | decode | codec | judges | core seconds in all |\n|---|---|---|---|---|")
    parts = " | ".join(f"{part:.1f}" for part in (decode - codec, codec, judges, decode + judges))
    print(f"| {records} | {parts} |")


def cores(checkout: Path, code: str, arguments: list[str]) -> float:
    """Return the core seconds of a command and its child processes; it must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    path = {"PYTHONPATH": str(checkout.absolute())}
    subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments], check=True, env=os.environ | path
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
