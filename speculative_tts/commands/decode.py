"""Decode a test list: a target alone, with a draft and a rule, or by multi-token heads.

Writes a run folder named by what the run is and a signature of its settings: a record per utterance
(tokens, counts, seconds) and the audio. A finished run is skipped, a killed one continues where it
was. Lists of values make a sweep.
"""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speculative_tts.assets import resolve
from speculative_tts.commands import app
from speculative_tts.files import held, write_atomic
from speculative_tts.records import read_list, spread, write_json
from speculative_tts.schema import (
    LAWS,
    UNUSED,
    WITHOUT_HEADS,
    DecodeConfig,
    Drafting,
    GroupsConfig,
    HeadsConfig,
    PathMode,
    Rule,
    SamplingConfig,
    Similarity,
    System,
    ViterbiConfig,
)
from speculative_tts.typed import read_json

if TYPE_CHECKING:
    from speculative_tts.decoding.run import AudioSource
    from speculative_tts.records import DecodeRecord

DONE = "DONE"


def run(config: DecodeConfig) -> int:
    """Decode one list with one system."""
    from tqdm import tqdm

    from speculative_tts.decoding.build import build_source
    from speculative_tts.decoding.run import DecodeRun, finished

    groups = config.rule.groups
    if groups.theta is None:  # a run has one name, whether or not the default is written out
        groups.mean_size = groups.size
    if config.match is not None:
        from speculative_tts.commands.match import matched

        config = matched(config, run)
    items = spread(read_list(resolve(config.data.path)), config.limit)
    swapped = swap_source(config)
    folder = app.require_writable(config.out) / run_name(config)
    there = finished(folder)
    if (folder / DONE).is_file() and all(item.id in there for item in items):
        print(f"{folder}: done already, skipped{_by_other_code(folder)}")
        return 0
    source = build_source(config, swapped)
    decode = DecodeRun(source, folder, config.batch_size)
    decode.start(items)  # a mistake leaves no empty run
    with held(app.require_writable(folder), "out=<other folder>"):
        done, earlier = len(finished(folder)), _by_other_code(folder)
        _describe(config, source, folder)
        with tqdm(total=len(items), initial=done, desc=label(config), unit="utt") as bar:
            for _ in decode.run(items):
                bar.update()
        if decode.failed:
            return _failed(decode.failed, len(items), folder)
        write_atomic(folder / DONE, "")
        _track(config, folder)
    print(f"{folder}: {len(items)} utterances ({done} of them from an earlier run{earlier})")
    return 0


def _track(config: DecodeConfig, folder: Path) -> None:
    """Send what the counts of the records say to wandb, where it is asked for."""
    if config.wandb:
        from speculative_tts.evaluation.rows import row_of
        from speculative_tts.evaluation.sources import read_run
        from speculative_tts.evaluation.summary import Bootstrap, figures
        from speculative_tts.tracking import track_figures

        rows = [row_of(sample) for sample in read_run(folder).samples]
        track_figures("decode", config, folder, figures(rows, Bootstrap(draws=0)))


def _failed(failed: dict[str, str], total: int, folder: Path) -> int:
    """Say which utterances have no record; the exit code of such a run."""
    from speculative_tts.decoding.run import FAILED

    first = next(iter(failed.values()))
    print(
        f"{folder}: {len(failed)} of {total} utterances failed ({FAILED} lists them); the same "
        f"command tries them again. {first}",
        file=sys.stderr,
    )
    return 1


def _describe(config: DecodeConfig, source: "AudioSource", folder: Path) -> None:
    """Write what the run is, and what its results rest on."""
    from speculative_tts.provenance import plain, provenance

    if source.settings is not None:
        sampling = SamplingConfig(**dataclasses.asdict(source.settings))
        config = dataclasses.replace(config, sampling=sampling)
    write_json(folder / "config.json", plain(config))
    write_json(folder / "provenance.json", provenance(config) | _made_of(config, source))


def _by_other_code(folder: Path) -> str:
    """What to say of a run that other code made or began; nothing when it was this code."""
    from speculative_tts.provenance import code_text, code_version

    path = folder / "provenance.json"
    made = read_json(path).get("code") if path.is_file() else None
    if not isinstance(made, dict) or made == (now := code_version()):
        return ""
    return (
        f"; made by other code ({code_text(made)}, this is {code_text(now)}): "
        "out=<new folder> makes it anew"
    )


def _made_of(config: DecodeConfig, source: "AudioSource") -> dict[str, Any]:
    """What a run's results rest on besides its settings: weights, groups, heads and transitions."""
    from speculative_tts.provenance import content_hash

    paths = {"target": config.target.path, "draft": config.draft.path, "codec": config.codec.path}
    weights = {name: content_hash(resolve(path)) for name, path in paths.items()}
    return {"weights": weights, **source.facts}


def run_name(config: DecodeConfig) -> str:
    """Name of a run's folder: what it is, and the signature of its settings."""
    from speculative_tts.provenance import signature

    if config.source is not None:  # a run moved elsewhere stays the same run
        config = dataclasses.replace(config, source=Path(config.source).name)
    return f"{label(config)}-{signature(config, unused(config), LAWS)}"


def swap_source(config: DecodeConfig) -> "dict[str, DecodeRecord]":
    """Records of the target's run that system=swap starts from; none for other systems.

    Raises ValueError when there is no such finished run, or no groups to swap within.
    """
    if config.system is not System.swap:
        return {}
    from speculative_tts.decoding.run import read_records

    if config.rule.name is not Rule.group:
        raise ValueError(
            f"system=swap swaps within groups, and rule is {config.rule.name.name}; give rule=group"
        )
    target = dataclasses.replace(config, system=System.target, source=None)
    folder = Path(config.source or Path(config.out) / run_name(target))
    if not (folder / DONE).is_file():
        raise ValueError(
            f"{folder} is no finished run; system=swap needs the target's, made by "
            "sst-decode system=target with the same settings, or source=<its folder>"
        )
    made = read_json(folder / "config.json")
    if made.get("system") != System.target.name:
        raise ValueError(f"{folder} is a run of system={made.get('system')}, not of the target")
    return read_records(folder)


def unused(config: DecodeConfig) -> tuple[str, ...]:
    """Settings that this run does not read."""
    keys = UNUSED[config.system]
    if config.system is not System.swap or config.source is None:
        keys = (*keys, "source")
    keys = (*keys, "match")
    heads = config.system is System.speculative and config.drafter.name is Drafting.heads
    if heads:
        keys = ("draft", *(key for key in keys if key not in WITHOUT_HEADS))
    if heads or config.system is System.multi_token:
        keys = (*keys, *unused_by_search(config.viterbi))
    if "rule" in keys:
        return keys
    if config.rule.name is not Rule.tolerance and "rule.beta" not in keys:
        keys = (*keys, "rule.beta")
    if config.rule.name is not Rule.group:
        return (*keys, "rule.groups")
    if config.rule.groups.path is not None:  # its content counts, the options do not
        return keys
    keys = (*keys, "rule.groups.cache", "rule.groups.path")
    return keys if config.rule.groups.theta is None else (*keys, "rule.groups.mean_size")


def unused_by_search(config: ViterbiConfig) -> tuple[str, ...]:
    """Settings of the path search that this run does not read; of a named cache content counts."""
    keys: tuple[str, ...]
    if config.mode is PathMode.none:
        keys = ("candidates", "top_k", "weight", "boundary", "temperature", "transitions")
    elif config.transitions.path is None:
        keys = ("transitions.cache", "transitions.workers", "transitions.path")
    else:
        keys = tuple(f"transitions.{key}" for key in ("cache", "workers", "codes", "column"))
    return tuple(f"viterbi.{key}" for key in keys)


def label(config: DecodeConfig) -> str:
    """What a run is, for people: speculative-tolerance-b0.4-k3-s0."""
    parts = [config.system.name]
    if config.system is System.swap:
        parts += groups_label(config.rule.groups)
    if config.system is System.speculative:
        parts.append(config.rule.name.name)
        if config.rule.name is Rule.tolerance:
            parts.append(f"b{config.rule.beta:g}")
        if config.rule.name is Rule.group:
            parts += groups_label(config.rule.groups)
        parts.append(f"k{config.lookahead}")
        if config.drafter.name is Drafting.heads:
            parts += ["heads", *search_label(config.heads, config.viterbi)]
    if config.system is System.multi_token:
        parts += search_label(config.heads, config.viterbi)
    return "-".join([*parts, f"s{config.seed}"])


def search_label(heads: HeadsConfig, viterbi: ViterbiConfig) -> list[str]:
    """How a run uses heads: n8-none, n8-sample-union-k3, and what differs from the defaults."""
    parts = [f"n{'all' if heads.n is None else heads.n}", viterbi.mode.name]
    if viterbi.mode is not PathMode.none:
        parts += [viterbi.candidates.name, f"k{viterbi.top_k}"]
        parts += [f"w{viterbi.weight:g}"] if viterbi.weight != 1 else []
        parts += ["boundary"] if viterbi.boundary else []
    return parts


def groups_label(config: GroupsConfig) -> list[str]:
    """Which groups a run uses: t0.5 (theta) or m10 (mean size), and what differs from the paper."""
    size = f"m{config.size:g}" if config.theta is None else f"t{config.theta:g}"
    if config.path is not None:
        size = Path(config.path).name
    source = [] if config.source is Similarity.embedding else [config.source.name]
    return [size, *source]


main = app.command(
    "decode",
    DecodeConfig,
    run,
    examples=("sst-decode limit=5", "sst-decode rule.beta=0,0.2,0.4 lookahead=3"),
    implied=app.RULE_OF_KEY + app.CODEC_OF_TARGET,
)
