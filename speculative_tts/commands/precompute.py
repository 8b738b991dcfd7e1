"""Computes what runs share: a target's similarity groups (PCG), a codec's transitions (MTP).

The cache is keyed by its content (embeddings or codes, options), so a run that needs it finds it,
and one that nobody made is made then. Prints facts as JSON: of groups their number and sizes, theta
and how far cosines agree with distances in the codebook (`likeness`); of transitions the bigrams
counted, seconds, and bigrams per second.
"""

import sys
from pathlib import Path

from speculative_tts.commands import app, choices
from speculative_tts.schema.prepare import Cache, PrecomputeConfig
from speculative_tts.typed import json_text


def run(config: PrecomputeConfig) -> int:
    """Find or make the cache that is asked for."""
    return {Cache.groups: groups, Cache.transitions: transitions}[config.cache](config)


def transitions(config: PrecomputeConfig) -> int:
    """Count the transitions between the codes of `config.codec`."""
    from speculative_tts.caches.transitions import export_counts, find_or_count
    from speculative_tts.codecs.registry import load_codec

    options, folder = config.transitions, Path(config.codec.path)
    if options.path is not None:
        raise ValueError(
            "transitions.path names a cache that is there; leave it null to count transitions.codes"
        )
    app.require_writable(options.cache, "transitions.cache")
    export = config.export and app.require_writable(config.export, "export")
    n_codes = load_codec(config.codec.name, folder).n_codes
    entry = find_or_count(options, (config.codec.name, folder), n_codes, config.cluster)
    if export:
        export_counts(entry, export)
    print(json_text({"folder": str(entry.folder), **entry.facts}))
    return 0


def groups(config: PrecomputeConfig) -> int:
    """Find or make the groups of `config.target`."""
    import torch

    from speculative_tts.caches.provide import Sources, acoustic_groups

    app.require_device(config.device)
    torch.set_num_threads(config.threads)
    if config.groups.path is None:
        app.require_writable(config.groups.cache, "groups.cache")
    sources = Sources(
        Path(config.target.path),
        (config.codec.name, Path(config.codec.path)),
        torch.device(config.device.value),
        config.target.rows,
    )
    entry = acoustic_groups(config.groups, sources)
    print(json_text({"folder": str(entry.folder), **entry.facts}))
    return 0


main = app.command(
    "precompute",
    PrecomputeConfig,
    run,
    examples=(
        "sst-precompute cache=groups groups.mean_size=4.5,10,40",
        "sst-precompute cache=groups groups.theta=0.5 groups.source=mel",
        "sst-precompute cache=transitions transitions.smoothing=floor transitions.strength=0.01",
    ),
    shorthand=app.CLUSTER,
    implied=choices.CODEC_OF_TARGET,
)

if __name__ == "__main__":
    sys.exit(main())
