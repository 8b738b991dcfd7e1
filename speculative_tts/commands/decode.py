"""Decode a test list: a target alone, with a draft and a rule, or by multi-token heads.

Writes a run folder named by what the run is and a signature of its settings: a record per utterance
(tokens, counts, seconds) and the audio. A finished run is skipped, a killed one continues where it
was. Lists of values make a sweep.
"""

import dataclasses
import shlex
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from speculative_tts.commands import app, choices
from speculative_tts.files import held
from speculative_tts.records import read_list, spread
from speculative_tts.runs.folder import (
    CONFIG,
    FAILED,
    PROVENANCE,
    is_done,
    mark_done,
    read_provenance,
    shared_caches,
)
from speculative_tts.runs.naming import label, run_name, settings
from speculative_tts.schema.decode import DecodeConfig, System
from speculative_tts.texts import with_interval
from speculative_tts.typed import write_json

if TYPE_CHECKING:
    from speculative_tts.runs.estimate import Plan
    from speculative_tts.runs.run import AudioSource

planned: "list[Plan]" = []  # plans of the sweep's runs so far


def run(config: DecodeConfig) -> int:
    """Decode one list with one system."""
    from speculative_tts.progress import progress
    from speculative_tts.runs.run import SOURCES, DecodeRun, finished

    check(config)
    found: dict[str, Any] = {}
    if config.system is System.speculative and isinstance(config.lookahead, str):
        config, found = _settled(config)
    if config.plan:
        return _plan(dataclasses.replace(config, match=None, plan=False))
    if config.match is not None:
        from speculative_tts.runs.tune import matched

        config = matched(config, run)
    items = spread(read_list(Path(config.data.path)), config.limit)
    folder = app.require_writable(config.out) / run_name(config)
    there = finished(folder)
    if is_done(folder) and all(item.id in there for item in items):
        print(f"{folder}: done already, skipped{_by_other_code(folder)}")
        return 0
    source = resolve_name(SOURCES[config.system])(config)
    decode = DecodeRun(source, folder)
    decode.start(items)  # a mistake leaves no empty run
    with held(app.require_writable(folder), "out=<other folder>"):
        done, earlier = len(finished(folder)), _by_other_code(folder)
        _describe(config, source, folder, found)
        with progress(total=len(items), initial=done, desc=label(config), unit="utt") as bar:
            for _ in decode.run(items):
                bar.update()
        if decode.failed:
            return _failed(decode.failed, len(items), folder)
        mark_done(folder)
        if config.wandb:
            _track(config, folder)
    print(f"{folder}: {len(items)} utterances ({done} of them from an earlier run{earlier})")
    print(_found(config.system, config.out, folder, source.facts.get("in_python")))
    return 0


def check(config: DecodeConfig) -> None:
    """Raise ValueError for an odd list, a path that leads nowhere, and no goal in `match`."""
    read_list(Path(config.data.path))
    run_name(config)
    if config.match is not None:
        from speculative_tts.costs.lookahead import written_out
        from speculative_tts.runs.tune import parsed

        parsed(written_out(config))


def _settled(config: DecodeConfig) -> tuple[DecodeConfig, dict[str, Any]]:
    """Replace lookahead=auto or adaptive by a number; return the measurements it rests on too."""
    from speculative_tts.costs.lookahead import settled, told, written_out

    config = written_out(config)
    if not config.seeks_lookahead:
        return config, {}
    from speculative_tts.decoding.model_cache import process_cache

    app.require_writable(config.out)
    models = process_cache(config.runtime.device.value)
    given, found = settled(config, kept=models, cache=shared_caches(config.out, config.cache))
    print(told(found))
    return given, found


def _found(system: System, out: str, folder: Path, in_python: str | None) -> str:
    """Describe the figures of a run's counts, with intervals, and name the next command.

    `in_python` is a part that has no native round, which makes its seconds slow.
    """
    from speculative_tts.evaluation.registry import METRICS
    from speculative_tts.evaluation.sources import decoded_rows
    from speculative_tts.evaluation.summary import Bootstrap, interval

    rows, command = decoded_rows(folder), f"sst-eval runs={shlex.quote(out)}"

    def told(name: str, text: str) -> str:
        metric = METRICS[name]
        one = interval(rows, metric, Bootstrap(draws=2000))
        if one.value is None:
            return ""
        numbers = (one.value, one.low, one.high)
        return text.format(with_interval(numbers, f".{metric.digits}f", metric.scale), one.n)

    found = (
        told("speedup", "{} times the target alone on this machine ({} utterances timed)"),
        "" if system is System.speculative else told("time_per_token_ms", "{} ms a token"),
        told("acceptance_rate", "accepted {} of the drafted tokens"),
        told("acceptance_length", "{} tokens a round"),
        told("first_audio_ms", "first audio after {} ms"),
    )
    slow = f"{in_python} has no native round: compare tokens a round, not seconds"
    lines = (slow if in_python else "", ", ".join(filter(None, found)))
    return "\n".join(f"  {line}" for line in (*filter(None, lines), f"next: {command}"))


def _plan(config: DecodeConfig) -> int:
    """Print the cost of a run, and of the sweep's runs so far."""
    from speculative_tts.provenance import peak_gib
    from speculative_tts.runs.estimate import Plan, plan
    from speculative_tts.runs.run import SOURCES

    if not app.job_number():
        planned.clear()
    items = spread(read_list(Path(config.data.path)), config.limit)
    folder = app.require_writable(config.out) / run_name(config)
    if config.system is System.swap:  # its source run need not exist yet
        found = Plan(runs=1, utterances=len(items))
    else:
        found = plan(resolve_name(SOURCES[config.system])(config), folder, items)
    planned.append(found)
    print(f"{folder}: {found}")
    if len(planned) > 1:
        whole = sum(planned, Plan())
        print(f"{len(planned)} runs so far: {whole}; {peak_gib():.1f} GiB of memory")
    return 0


def _track(config: DecodeConfig, folder: Path) -> None:
    from speculative_tts.evaluation.sources import decoded_rows
    from speculative_tts.evaluation.summary import Bootstrap, figures
    from speculative_tts.tracking import track_figures

    known = figures(decoded_rows(folder), Bootstrap(draws=0))
    track_figures("decode", config, folder, known)


def _failed(failed: dict[str, str], total: int, folder: Path) -> int:
    """Say which utterances have no record; return the exit code of such a run."""
    first = next(iter(failed.values()))
    print(
        f"{folder}: {len(failed)} of {total} utterances failed ({FAILED} lists them); the same "
        f"command tries them again. {first}",
        file=sys.stderr,
    )
    return 1


def _describe(
    config: DecodeConfig, source: "AudioSource", folder: Path, found: dict[str, Any]
) -> None:
    """Write the run's settings and the provenance of its results: code, weights, caches, memory."""
    from speculative_tts.provenance import content_hash, provenance

    if source.settings is not None:
        config = dataclasses.replace(config, sampling=source.settings)
    read = settings(config)
    write_json(folder / CONFIG, read)
    paths = {"target": config.target.path, "draft": config.draft.path, "codec": config.codec.path}
    weights = {name: content_hash(Path(path)) for name, path in paths.items() if name in read}
    timed = config.timing != 0 and "timing" in read
    memory = _memory(shared_caches(config.out, config.cache)) if timed else {}
    made_of = {"weights": weights, **memory, **source.facts}
    write_json(folder / PROVENANCE, provenance(config) | made_of | found)


def _by_other_code(folder: Path) -> str:
    """Describe the other code that made or began a run; empty if it was this code."""
    from speculative_tts.provenance import code_text, code_version

    made = read_provenance(folder).get("code")
    if not isinstance(made, dict) or made == (now := code_version()):
        return ""
    return (
        f"; made by other code ({code_text(made)}, this is {code_text(now)}): "
        "out=<new folder> makes it anew"
    )


def _memory(cache: Path) -> dict[str, Any]:
    """Return GB/s of a core beside the machine's quiet figure."""
    from speculative_tts.runs.clocks import memory_speed, quiet_speed

    speed = memory_speed()
    return {"memory": {"gb_per_second": speed, "quiet": quiet_speed(cache, speed)}}


main = app.command(
    "decode",
    DecodeConfig,
    run,
    examples=("sst-decode limit=5", "sst-decode rule.beta=0,0.2,0.4 lookahead=3"),
    first=(
        *("method", "experiment", "limit", "lookahead", "rule"),
        *("target", "draft", "out", "seed", "plan"),
    ),
    implied=(
        *(*choices.CODEC_OF_TARGET, *choices.DATA_OF_TARGET, *choices.DRAFT_OF_TARGET),
        *choices.LOGS_BESIDE_RUNS,
    ),
)

if __name__ == "__main__":
    sys.exit(main())
