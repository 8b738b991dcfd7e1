"""Extract a corpus's speech codes: Parquet shards made in parallel by the target's own tokenizer.

A shard is a fixed part of the corpus, written whole under its number: existing ones are skipped, so
a killed run continues, and several machines can each take every n-th. A shard's metadata names the
utterances that it leaves out.
"""

import functools
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from speculative_tts.codecs.audio import UnfitWaveError, read_wave
from speculative_tts.codecs.registry import BatchCodec, Codec, load_codec
from speculative_tts.corpora.codes import code_columns, codes_schema, write_shard
from speculative_tts.corpora.settings import require_settings
from speculative_tts.corpora.utterance import Utterance
from speculative_tts.progress import progress
from speculative_tts.provenance import content_hash
from speculative_tts.shards import check_job
from speculative_tts.typed import json_text
from speculative_tts.workers import HERE, Workers

SETTINGS = "extraction.json"
BATCH = 16  # utterances that are encoded together
LEFT_OUT = b"left out"  # key of a shard's metadata
SCHEMA = codes_schema(pa.int32(), layered=True)


@dataclass(frozen=True)
class Extraction:
    """Settings of an extraction; `what` identifies the corpus, for the check of a resumed run."""

    codec: str
    codec_path: Path
    shard_size: int
    what: dict[str, Any]
    job: int = 0
    jobs: int = 1
    allow_missing: bool = False

    def __post_init__(self) -> None:
        check_job(self.job, self.jobs)


@dataclass
class Dropped:
    """Ids of utterances left out of a corpus, with the reason where the codec cannot encode one."""

    missing: list[str] = field(default_factory=list)  # no audio
    unfit: dict[str, str] = field(default_factory=dict)

    def add(self, other: "Dropped") -> None:
        """Add those of another shard."""
        self.missing += other.missing
        self.unfit |= other.unfit

    def lines(self) -> list[str]:
        """Describe the utterances left out, in one line per kind."""
        out = []
        if self.missing:
            count = len(self.missing)
            out.append(f"{count} utterances without audio left out, such as {self.missing[0]}")
        if self.unfit:
            (id_, why), *_ = self.unfit.items()
            out.append(f"{len(self.unfit)} that the codec cannot encode, such as {id_}: {why}")
        return out


@dataclass(frozen=True)
class Shard:
    """One shard to make."""

    path: Path
    utterances: tuple[Utterance, ...]
    how: Extraction


def extract(
    utterances: Iterable[Utterance], how: Extraction, folder: Path, workers: Workers = HERE
) -> Dropped:
    """Make `folder/<split>-00000.parquet`, ...; return the utterances that its shards leave out.

    Raise ValueError when the folder was made with other settings, or, unless `allow_missing`, when
    audio is missing.
    """
    require_settings(folder / SETTINGS, _settings(how))
    pending = (shard for shard in _shards(utterances, how, folder) if not shard.path.exists())
    results = workers.each(make_shard, pending)
    for _ in progress(results, f"encoding into {folder.name}", unit="shard"):
        pass
    dropped = Dropped()
    for path in sorted(folder.glob("*.parquet")):
        dropped.add(read_dropped(path))
    return dropped


def read_dropped(path: Path) -> Dropped:
    """Read from a shard's metadata which utterances it leaves out."""
    metadata = pq.read_schema(path).metadata or {}
    return Dropped(**json.loads(metadata.get(LEFT_OUT, b"{}")))


def make_shard(shard: Shard) -> None:
    """Encode and write one shard, with the utterances it leaves out."""
    missing = [one.id for one in shard.utterances if not Path(one.audio).is_file()]
    if missing and not shard.how.allow_missing:
        raise ValueError(
            f"audio of {missing[0]} and {len(missing) - 1} more of {shard.path.stem} is missing; "
            "get the recordings, or leave them out with allow_missing=true"
        )
    codec, dropped = codec_at(shard.how.codec, shard.how.codec_path), Dropped(missing)
    absent, rows = set(missing), list[dict[str, object]]()
    present = [one for one in shard.utterances if one.id not in absent]
    for begin in range(0, len(present), BATCH):
        rows += encode_rows(present[begin : begin + BATCH], codec, dropped)
    about = {LEFT_OUT: json_text(asdict(dropped))}
    write_shard(rows, SCHEMA.with_metadata(about), shard.path)


def encode_rows(
    some: Sequence[Utterance], codec: Codec, dropped: Dropped
) -> list[dict[str, object]]:
    """Encode rows, together if the codec can; note unfit ones in `dropped`."""
    waves = [read_wave(Path(one.audio), codec.sample_rate, one.start, one.seconds) for one in some]
    if isinstance(codec, BatchCodec):
        codes = codec.encode_many(waves)
        return [make_row(one, own, codec) for one, own in zip(some, codes, strict=True)]
    rows = []
    for one, wave in zip(some, waves, strict=True):
        try:
            rows.append(make_row(one, codec.encode(wave), codec))
        except UnfitWaveError as error:
            dropped.unfit[one.id] = str(error)
    return rows


def make_row(one: Utterance, codes: np.ndarray, codec: Codec) -> dict[str, object]:
    """Return one row of the store; word boundaries are unknown, so all of it is speech."""
    names = {"id": one.id, "speaker": one.speaker, "split": one.split, "text": one.text}
    return names | code_columns(codes, 0.0, [], codec.token_rate)


@functools.cache
def codec_at(name: str, path: Path) -> Codec:
    """Load a codec, once a process."""
    return load_codec(name, path)


def _shards(utterances: Iterable[Utterance], how: Extraction, folder: Path) -> Iterator[Shard]:
    """Yield this job's shards; each split has its own numbers."""
    counts: Counter[str] = Counter()
    for split, group in itertools.groupby(utterances, key=lambda one: one.split):
        while part := tuple(itertools.islice(group, how.shard_size)):
            path = folder / f"{split}-{counts[split]:05d}.parquet"
            if counts[split] % how.jobs == how.job:
                yield Shard(path, part, how)
            counts[split] += 1


def _settings(how: Extraction) -> dict[str, Any]:
    """Return the settings that a folder's shards share: corpus, codec and shard size."""
    return {
        **how.what,
        "codec": how.codec,
        "codec_hash": content_hash(how.codec_path),
        "shard_size": how.shard_size,
    }
