"""Name runs `<label>-<signature>`: equal exactly when two runs are the same.

The signature is over the settings that the run reads (`schema.decode.READS`), each as its content
where it is a path; over `LAWS`, which turn models and a seed into tokens; and over what models
compute with. A setting that makes no other run says so in its type (`schema.fields.Aside`); one
that was added later (`Since`) makes none while it has the value that runs before it had.
"""

from pathlib import Path
from typing import Any

from speculative_tts.provenance import plain, signature
from speculative_tts.schema.decode import (
    ALWAYS,
    BY_HEADS,
    READS,
    DecodeConfig,
    HeadsConfig,
    PathMode,
    System,
    ViterbiConfig,
)
from speculative_tts.schema.drafters import HeadsDrafterConfig
from speculative_tts.schema.rules import GroupRule

LAWS = 2
"""Version of the laws: raised when sampling, rules or uniforms give other tokens for a seed.

2: uniforms of 53 bits under keys of 256; sampled paths by logarithms.
"""
OWN_LAWS = {"swap": 3}
"""Versions for systems whose tokens changed alone, by the system's name.

swap 3: a swapped token is never drawn itself.
"""
# Counted for every run before, and decides no token now that batches are not timed.
BEFORE = {"batch_size": 1}


def run_name(config: DecodeConfig) -> str:
    """Return the name of a run's folder; raise ValueError if a path leads nowhere."""
    values = settings(config, identity=True)
    if "source" in values:  # a run moved elsewhere stays the same run
        values["source"] = config.source and Path(config.source).name
    if config.viterbi.mode is PathMode.none and "viterbi" in values:
        values["viterbi"] = {"mode": PathMode.none.name}
    if "runtime" in values:
        from speculative_tts.native import library

        values["runtime"]["kernels"] = library.kernel_label(config.runtime)
    laws = OWN_LAWS.get(config.system.name, LAWS)
    return f"{label(config)}-{signature(values | BEFORE | {'laws': laws})}"


def settings(config: DecodeConfig, *, identity: bool = False) -> dict[str, Any]:
    """Return the settings that a run reads, as JSON values: its config.json.

    For its `identity` those are left out that make no other run.
    """
    reads = {*ALWAYS, *READS[config.system]}
    if "drafter" in reads:
        reads |= {*config.drafter.reads}
    every = plain(config, identity=identity)
    values = {key: value for key, value in every.items() if key in reads}
    if "rule" in values and isinstance(config.rule, GroupRule) and config.rule.groups.theta is None:
        values["rule"]["groups"]["mean_size"] = config.rule.groups.size  # null is the default size
    return values


def label(config: DecodeConfig) -> str:
    """Return the readable part of a run's name: speculative-tolerance-b0.4-k3-s0."""
    parts = [config.system.name]
    if config.system is System.swap and isinstance(config.rule, GroupRule):
        parts += config.rule.groups.label
    if config.system is System.speculative:
        parts += [*config.rule.label, f"k{config.lookahead}", *config.drafter.label]
        if isinstance(config.drafter, HeadsDrafterConfig):
            parts += ["heads", *search_label(config.heads, config.viterbi)]
    if config.system in BY_HEADS:
        parts += search_label(config.heads, config.viterbi)
    return "-".join([*parts, f"s{config.seed}"])


def search_label(heads: HeadsConfig, viterbi: ViterbiConfig) -> list[str]:
    """Name how a run uses heads: n8-none, n8-sample-union-k3, and what is no default."""
    parts = [f"n{'all' if heads.n is None else heads.n}", viterbi.mode.name]
    if viterbi.mode is not PathMode.none:
        parts += [viterbi.candidates.name, f"k{viterbi.top_k}"]
        parts += [f"w{viterbi.weight:g}"] if viterbi.weight != 1 else []
        parts += ["boundary"] if viterbi.boundary else []
    return parts
