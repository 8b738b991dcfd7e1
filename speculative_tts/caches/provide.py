"""Provide the groups of a configuration: from the store, newly made, or from a named folder."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speculative_tts.caches import groups, store, vectors
from speculative_tts.caches.likeness import likeness
from speculative_tts.codecs.registry import Codec, load_codec
from speculative_tts.models.families.registry import code_embedding, load_layout
from speculative_tts.models.slots import slots_of
from speculative_tts.models.speech_lm import Layout
from speculative_tts.progress import bar
from speculative_tts.provenance import content_hash
from speculative_tts.schema.common import (
    CheckpointConfig,
    GroupsConfig,
    GroupWeights,
    RowsConfig,
    Similarity,
)
from speculative_tts.shards import shard

KIND = "groups"
# Contents of a cache besides memberships; part of its key.
BESIDE = "own groups, sizes, likeness to the codebook: 3"
RULE = ("token_offsets", "token_groups", "group_offsets", "group_tokens", "scores")


@dataclass(frozen=True)
class Sources:
    """Inputs of groups; `codec` is the codec's name and folder."""

    target: Path
    codec: tuple[str, Path]
    device: torch.device
    rows: RowsConfig = field(default_factory=RowsConfig)

    @property
    def checkpoint(self) -> CheckpointConfig:
        """The target as a configuration."""
        return CheckpointConfig(name=self.target.name, path=str(self.target), rows=self.rows)


def acoustic_groups(config: GroupsConfig, sources: Sources) -> store.Entry:
    """Return the groups of `config` for this target: CSR arrays both ways, scores, and facts.

    Raise ValueError for invalid numbers, a named cache of another target, or a damaged one; a
    damaged folder of the store is made again.
    """
    if config.theta is not None and config.mean_size is not None:
        raise ValueError(
            f"theta {config.theta} and mean_size {config.mean_size} are both given; leave one out "
            "(theta=null searches the theta of a mean_size)"
        )
    layout = load_layout(sources.checkpoint)
    origin = _origin(config.source, layout, sources)
    if config.path is not None:
        return _open_named(Path(config.path), origin, sources)
    counts = None
    if config.weights is GroupWeights.unigram:
        counts = count_codes(Path(config.unigram), layout.speech_vocab_size)
    options = {
        "theta": config.theta,
        "mean_size": config.size if config.theta is None else None,
        "cap": config.cap,
        "unigram": None if counts is None else store.array_hash([counts.numpy()]),
        "beside": BESIDE,
        "codec": content_hash(sources.codec[1]),  # whose codebook the likeness is to
    }
    return store.find_or_make(
        Path(config.cache), KIND, origin | options, lambda: make(config, layout, sources, counts)
    )


def make(
    config: GroupsConfig, layout: Layout, sources: Sources, counts: Tensor | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compute arrays and facts of groups over the speech ids; only codes of one slot share groups.

    A frame's slots have a theta each; the facts have their mean.
    """
    size, parts = layout.speech_vocab_size, _parts(layout)
    codec = load_codec(*sources.codec)
    check_codec(codec, sources.codec[1], layout, sources.target)
    if config.theta is None:
        for codes in parts:
            groups.check_mean_size(config.size, len(codes), config.cap)
    known = sound_vectors(config.source, layout, codec, sources, config.cache)
    units = [groups.normalise(known[codes.to(sources.device)]) for codes in parts]
    del known
    found = [_similar(config, units.pop(0), codes, codec) for codes in parts]  # lets vectors go
    thetas = [one.theta for one in found]
    with bar("groups", 2) as progress:
        pairs = groups.SimilarPairs(
            *(torch.cat(columns) for columns in zip(*(one.pairs for one in found), strict=True))
        )
        sets = groups.distinct_sets(pairs, -1.0, size, config.cap)
        progress(1)
        token_offsets, token_groups = groups.transpose(sets.offsets, sets.tokens, size)
        progress(1)
    scores = (
        torch.ones(len(sets.sizes)) if counts is None else groups.scores_by_unigram(sets, counts)
    )
    arrays = {
        "token_offsets": token_offsets,
        "token_groups": token_groups,
        "group_offsets": sets.offsets,
        "group_tokens": sets.tokens,
        "scores": scores,
        "own": sets.own,
    }
    return {name: tensor.numpy() for name, tensor in arrays.items()}, (
        facts(sets, sum(thetas) / len(thetas), size)
        | {"likeness": _mean_likeness([one.likeness for one in found])}
        | ({"thetas": thetas} if len(thetas) > 1 else {})
    )


@dataclass(frozen=True)
class _Similar:
    """Similar codes of one slot: theta, pairs with a cosine above it, agreement with codebook."""

    theta: float
    pairs: tuple[Tensor, Tensor, Tensor]  # first and second id, int32, and cosine
    likeness: dict[str, Any] | None


def _parts(layout: Layout) -> list[Tensor]:
    """Return the codes that may share a group: all, or in frames those of each slot."""
    stops, slots = set(layout.stop_ids), slots_of(layout)
    ranges = [range(layout.n_codes)] if slots is None else slots.ranges
    return [torch.tensor([code for code in one if code not in stops]) for one in ranges]


def _similar(config: GroupsConfig, unit: Tensor, codes: Tensor, codec: Codec) -> _Similar:
    """Find the similar pairs of codes by their vectors of length 1."""
    if config.theta is None:
        theta, pairs = groups.find_theta(unit, config.size, config.cap, bar)
    else:
        theta, pairs = config.theta, groups.similar_pairs(unit, config.theta, bar)
    above = pairs.cosine > theta
    first, second = (codes[ids[above]].int() for ids in (pairs.first, pairs.second))
    likeness = likeness_of(unit, codes, codec)
    return _Similar(theta, (first, second, pairs.cosine[above]), likeness)


def _mean_likeness(found: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return the mean of each figure over slots; None of a codec without a codebook."""
    known = [one for one in found if one is not None]
    if len(known) < 2:
        return known[0] if known else None
    named = {name: [one[name] for one in known if one[name] is not None] for name in known[0]}
    return {name: sum(some) / len(some) if some else None for name, some in named.items()}


def facts(sets: groups.Sets, theta: float, n_tokens: int) -> dict[str, Any]:
    """Return the figures of groups that commands print; bytes are those of the indices."""
    sizes = sets.sizes
    return {
        "theta": theta,
        "tokens": n_tokens,
        "groups": len(sizes),
        "members": len(sets.tokens),
        "mean_size": round(sets.mean_size, 3),
        "median_size": float(sizes.double().quantile(0.5)),
        "max_size": int(sizes.max()),
        "singletons": round(float((sizes == 1).double().mean()), 4),
        "bytes": 8 * len(sets.tokens) + 4 * (len(sizes) + n_tokens + 2),
    }


def tensors(
    entry: store.Entry, device: torch.device, vocab_size: int | None = None
) -> dict[str, Tensor]:
    """Return the tensors of the rule `Group`; on a CPU they share the file's memory map.

    Ids above those of the cache, up to `vocab_size` (text rows), are alone in their groups.
    """
    stored = {name: torch.from_numpy(entry.arrays[name]).to(device) for name in RULE}
    sets, tokens = len(stored["group_offsets"]) - 1, len(stored["token_offsets"]) - 1
    extra = 0 if vocab_size is None else vocab_size - tokens
    more = torch.arange(extra, dtype=torch.int32, device=device)
    if extra == 0:
        return stored
    return {
        "token_offsets": _extend(stored["token_offsets"], 1 + more),
        "token_groups": torch.cat([stored["token_groups"], sets + more]),
        "group_offsets": _extend(stored["group_offsets"], 1 + more),
        "group_tokens": torch.cat([stored["group_tokens"], tokens + more]),
        "scores": torch.cat([stored["scores"], stored["scores"].new_ones(len(more))]),
    }


def _extend(offsets: Tensor, steps: Tensor) -> Tensor:
    return torch.cat([offsets, offsets[-1] + steps])


def code_vectors(source: Similarity, sources: Sources) -> Tensor:
    """Return the vector of each speech id that similarity is measured on: float32 [ids, size].

    Stop ids, which have no sound, get NaN.
    """
    layout, codec = load_layout(sources.checkpoint), load_codec(*sources.codec)
    check_codec(codec, sources.codec[1], layout, sources.target)
    known = sound_vectors(source, layout, codec, sources)
    out = known.new_full((layout.speech_vocab_size, known.shape[1]), torch.nan)
    out[: layout.n_codes] = known[: layout.n_codes]
    out[list(layout.stop_ids)] = torch.nan
    return out


def count_codes(folder: Path, size: int) -> Tensor:
    """Count each speech id in the training codes of a store: int64 [size]."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    shards = sorted(folder.glob("*.parquet"))
    if not shards:
        raise ValueError(
            f"no Parquet shards in {folder}; give groups.unigram=<codes of sst-prepare>"
        )
    counts = torch.zeros(size, dtype=torch.int64)
    for path in shards:
        with shard(path):
            table = pq.read_table(path, columns=["codes", "split"])
            train = table.filter(pc.equal(table["split"], "train"))["codes"]
            codes = torch.tensor(pc.list_flatten(train).to_numpy().astype(np.int64))
            for code in codes.aminmax() if len(codes) else ():
                if not 0 <= code < size:
                    raise ValueError(
                        f"{path} has code {int(code)}, the target only {size} ids; "
                        "give groups.unigram=<codes of the target's codec>"
                    )
            counts += codes.bincount(minlength=size)
    if not counts.any():
        raise ValueError(
            f"{folder} has no code to learn from; give groups.unigram=<codes of sst-prepare>"
        )
    return counts


def check_codec(codec: Codec, folder: str | Path, layout: Layout, target: str | Path) -> None:
    """Raise ValueError for a codec that has not the target's number of codes."""
    if codec.n_codes != layout.n_codes:
        raise ValueError(
            f"codec {folder} has {codec.n_codes} codes, target {target} {layout.n_codes}; "
            "they do not belong together, give codec=<the target's>"
        )


def _origin(source: Similarity, layout: Layout, sources: Sources) -> dict[str, Any]:
    """Return the part of a cache's description that identifies target or codec, by hashes."""
    origin: dict[str, Any] = {
        "source": source.name,
        "vocabulary": [layout.n_codes, layout.speech_vocab_size, sorted(layout.stop_ids)],
    }
    if slots := slots_of(layout):
        origin["slots"] = list(slots.sizes)
    if source is Similarity.mel:
        return origin | {"codec": content_hash(sources.codec[1]), "mel": vectors.MEL_DEFINITION}
    if source is Similarity.codebook:
        return origin | {"codec": content_hash(sources.codec[1])}
    stored = code_embedding(sources.checkpoint)
    return origin | {"embedding": vectors.embedding_hash(stored)}


def sound_vectors(
    source: Similarity, layout: Layout, codec: Codec, sources: Sources, cache: str | None = None
) -> Tensor:
    """Return vectors, float32 [n_codes, size], on the device; slow ones are stored in `cache`."""
    if source is Similarity.mel:
        if slots_of(layout) is not None:
            raise ValueError(
                "source=mel needs codes that are heard one by one, and those of this target sound "
                "in whole frames; give source=embedding or source=codebook"
            )
        mel = _mel(layout, codec, sources, cache)
        return torch.from_numpy(mel.copy()).to(sources.device)
    if source is Similarity.codebook:
        return vectors.codebook_vectors(codec, sources.codec[1]).to(sources.device)
    return code_embedding(sources.checkpoint).to(sources.device, torch.float32)


def _mel(layout: Layout, codec: Codec, sources: Sources, cache: str | None) -> NDArray[np.float32]:
    """Return mel vectors of the codes, stored for groups of other sizes."""

    def make() -> dict[str, NDArray[np.float32]]:
        return {"mel": vectors.mel_vectors(codec, layout.n_codes, bar).numpy()}

    if cache is None:
        return make()["mel"]
    made_from = {"codec": content_hash(sources.codec[1]), "mel": vectors.MEL_DEFINITION}
    entry = store.find_or_make(Path(cache), "mel", made_from, lambda: (make(), {}))
    return entry.arrays["mel"]


def likeness_of(unit: Tensor, codes: Tensor, codec: Codec) -> dict[str, Any] | None:
    """Measure the agreement of cosines with the codebook; None for a codec without one."""
    codebook = getattr(codec, "codebook", None)
    if codebook is None:
        return None
    return likeness(unit, torch.from_numpy(codebook)[codes])


def _open_named(folder: Path, origin: Mapping[str, Any], sources: Sources) -> store.Entry:
    """Open the cache folder that was asked for; raise ValueError if its origin is another."""
    entry = store.open_named(folder, KIND, RULE)
    made_from = entry.description
    for name, expected in origin.items():
        if made_from.get(name) != expected:
            raise ValueError(
                f"{folder} was made for another target: its {name} is "
                f"{store.shorten(made_from.get(name))}, that of {sources.target} is "
                f"{store.shorten(expected)}; make it with sst-precompute, or leave groups.path null"
            )
    if made_from.get("codec") != content_hash(sources.codec[1]):  # of another codebook's likeness
        return dataclasses.replace(entry, facts=entry.facts | {"likeness": None})
    return entry
