"""Asks people: writes a listening test, collects answers, and makes scores of them.

`sst-listen make` writes a folder for any web host and the key to it, `sst-listen serve` shows it
and collects answers, `sst-listen score` gives means with intervals for the tables of sst-report,
and `sst-listen power` tells how many raters a difference takes.
"""

import sys
from contextlib import suppress
from pathlib import Path

from speculative_tts.commands import app
from speculative_tts.schema.listen import ListenConfig, ListenStep


def run(config: ListenConfig) -> int:
    """Run one step of a listening test."""
    steps = {
        ListenStep.make: _make,
        ListenStep.serve: _serve,
        ListenStep.score: _score,
        ListenStep.power: _power,
    }
    return steps[config.what](config)


def _make(config: ListenConfig) -> int:
    from speculative_tts.listening import lines
    from speculative_tts.listening.key import KEY, SITE
    from speculative_tts.listening.make import make

    folder = app.require_writable(config.folder, "folder")
    made = make(config)
    for line in made.remarks:
        print(line)
    trials = len(made.key.raters[0])
    names = ", ".join(one.name for one in made.key.systems)
    print(f"{config.test.name} of {names}: {config.raters} raters, {trials} trials each")
    print(f"{made.clips} clips of {made.utterances} utterances in {folder / SITE}")
    print(f"for a web host: {folder / SITE}; keep to yourself: {folder / KEY}")
    if len(made.key.systems) > 1:
        print("\n".join(lines.power_lines(config, made.utterances)))
    print(f"or let this machine collect the answers: sst-listen serve folder={folder}")
    return 0


def _serve(config: ListenConfig) -> int:
    from speculative_tts.listening.server import serve

    def ready(address: str) -> None:
        print(f"{config.folder} is at {address} (Ctrl-C ends it)", flush=True)

    with suppress(KeyboardInterrupt):  # Ctrl-C is the way to stop serving
        serve(app.require_writable(config.folder, "folder"), config.host, config.port, ready)
    print(f"answers are kept; sst-listen score folder={config.folder}")
    return 0


def _score(config: ListenConfig) -> int:
    from speculative_tts.listening import lines
    from speculative_tts.listening.answers import read_answers, screen
    from speculative_tts.listening.key import ANSWERS, read_key
    from speculative_tts.listening.score import score, write

    folder = app.require_writable(config.folder, "folder")
    key = read_key(folder)
    answers = folder / ANSWERS if config.answers is None else Path(config.answers)
    screened = screen(key, read_answers(answers, key), partial=config.partial)
    found = score(key, screened, config.draws, config.seed)
    print("\n".join(lines.score_lines(key, found)))
    written, gone = write(folder, key, found)
    print("\n".join(f"wrote {path}" for path in written))
    for path in gone:
        print(f"{path} is gone: sst-report will not see its figure", file=sys.stderr)
    return 0


def _power(config: ListenConfig) -> int:
    from speculative_tts.listening import lines

    print("\n".join(lines.power_lines(config, config.utterances)))
    return 0


main = app.command(
    "listen",
    ListenConfig,
    run,
    examples=(
        "sst-listen make runs=runs/ssd systems=[target,speculative-tolerance-b0.4] raters=30",
        "sst-listen serve port=8765",
        "sst-listen score answers=answers",
        "sst-listen power difference=0.2 samples=10",
    ),
    first=(
        *("runs", "systems", "test", "raters", "samples"),
        *("folder", "list", "answers", "port", "seed"),
    ),
    shorthand=(("out", "folder"), *((one.name, f"what={one.name}") for one in ListenStep)),
)

if __name__ == "__main__":
    sys.exit(main())
