"""Read a split of a codes store as one memory-mapped Arrow file, made once from its shards.

Parquet is compressed and would have to be unpacked into each process, tens of gigabytes for
50,000 hours. Here all processes of a machine share the pages of `<codes>/columns/<split>.arrow`:
codes of 16 bits where they fit. The first process makes it, the others wait; it is rebuilt when
the shards have changed.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from speculative_tts.files import held, writing
from speculative_tts.shards import shard
from speculative_tts.training.laws import (
    COLUMNS,
    IDS,
    LOGS,
    REST,
    VOICE,
    VOICE_TEXT,
    TopDistributions,
)
from speculative_tts.typed import json_text

FOLDER = "columns"
RESIDUAL = "residual_codes"
VOICE_CODES = "voice_codes"
NO_LAYERS = (
    "residual_codes; a NAR learns from all layers: give codes_from=recorded and codes of the "
    "target's codec, or joint.nar_epochs=0"
)
NO_LAWS = "laws; make the codes with sst-own-codes laws=32, or leave laws out"
SOURCE = b"made of"  # key of the file's metadata


@dataclass(frozen=True)
class StoredUtterance:
    """One utterance of a codes store."""

    text: str
    codes: list[int]
    residual: tuple[list[int], ...] = ()  # further layers of codes, where they were asked for
    laws: TopDistributions | None = None  # of the codes of `voice`, the own codes and the end
    voice: "StoredUtterance | None" = None
    voice_codes: tuple[int, ...] = ()  # global codes of its voice, where the store has them


class Columns:
    """Number utterances so that a speaker's are together, speakers in order of their names.

    With `by_words` a speaker's utterances are in order of their number of words. Further layers of
    codes lie in a file of their own, `<split>-layers.arrow`, made for trainings that read them.
    """

    def __init__(self, path: Path, *, by_words: bool = False) -> None:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        self._batches = [reader.get_batch(index) for index in range(reader.num_record_batches)]
        self._ends = np.cumsum([batch.num_rows for batch in self._batches])
        speakers = pa.chunked_array([batch.column("speaker") for batch in self._batches])
        within = np.zeros(len(speakers), np.int64)
        if by_words:
            texts = (text for batch in self._batches for text in batch.column("text").to_pylist())
            within = np.array([len(text.split()) for text in texts])
        self._order, self.starts = _by_name(speakers, within)
        self._layered = RESIDUAL in reader.schema.names
        self._has_laws = IDS in reader.schema.names
        self._has_voices = VOICE_CODES in reader.schema.names

    @classmethod
    def open(
        cls,
        folders: Sequence[Path],
        split: str,
        n_codes: int,
        *,
        by_words: bool = False,
        layers: bool = False,
        laws: bool = False,
    ) -> "Columns":
        """Open `<split>-*.parquet` of the folders, with all `layers` of codes if asked.

        The first folder holds the Arrow file; with `laws` its shards must have the target's
        distributions. Raise FileNotFoundError where a folder has no shards; ValueError for codes
        out of range, for shards without distributions, or where the folder cannot be written.
        """
        paths: list[Path] = []
        for folder in folders:
            shards = sorted(folder.glob(f"{split}-*.parquet"))
            if not shards:
                raise FileNotFoundError(f"no {split}-*.parquet in {folder}; run sst-prepare first")
            paths += shards
        suffix = "-layers" * layers + "-laws" * laws + "-mix" * (len(folders) > 1)
        arrow = folders[0] / FOLDER / f"{split}{suffix}.arrow"
        if _source(arrow) != _signature(paths, n_codes):
            try:
                with held(arrow.parent):
                    if _source(arrow) != _signature(paths, n_codes):  # another made it meanwhile
                        _make(paths, n_codes, arrow, layers=layers, laws=laws)
            except PermissionError as error:
                raise ValueError(
                    f"{arrow.parent} cannot be written; training keeps columns of the codes there: "
                    "copy the codes to a folder where you may write"
                ) from error
        return cls(arrow, by_words=by_words)

    def __len__(self) -> int:
        """Return the number of utterances."""
        return len(self._order)

    def __getitem__(self, number: int) -> StoredUtterance:
        """Read utterance `number`."""
        place = int(self._order[number])
        index = int(np.searchsorted(self._ends, place, side="right"))
        batch = self._batches[index]
        row = place - int(self._ends[index]) + batch.num_rows
        codes = batch.column("codes")[row].values.to_numpy()
        residual = batch.column(RESIDUAL)[row].as_py() if self._layered else ()
        text = batch.column("text")[row].as_py()
        voice = tuple(batch.column(VOICE_CODES)[row].as_py()) if self._has_voices else ()
        utterance = StoredUtterance(text, codes.tolist(), tuple(residual), voice_codes=voice)
        if not self._has_laws or not batch.column(IDS)[row].is_valid:
            return utterance
        *laws, heard = (batch.column(n)[row].values.to_numpy() for n in (IDS, LOGS, REST, VOICE))
        voice_text = batch.column(VOICE_TEXT)[row].as_py()
        prompt = StoredUtterance(voice_text, heard.tolist()) if len(heard) else None
        return replace(utterance, laws=TopDistributions.read(*laws), voice=prompt)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of codes of each utterance."""
        counts = [pc.list_value_length(batch.column("codes")) for batch in self._batches]
        return np.concatenate([one.to_numpy() for one in counts])[self._order].astype(np.int64)

    @property
    def layers(self) -> set[int]:
        """Numbers of code layers that occur."""
        if not self._layered:
            return {1}
        further = (pc.list_value_length(batch.column(RESIDUAL)) for batch in self._batches)
        return {1 + count for one in further for count in one.unique().to_pylist()}

    def speaker(self, number: int) -> int:
        """Return an utterance's speaker; speaker i has the numbers starts[i] to starts[i + 1]."""
        return int(np.searchsorted(self.starts, number, side="right")) - 1


def _by_name(
    speakers: pa.ChunkedArray, within: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the file places in our order, and each speaker's first number with the end appended.

    A speaker's utterances are in order of `within`, then of the file.
    """
    coded = speakers.combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    rank = np.argsort(np.array(sorted(range(len(names)), key=names.__getitem__)))
    own = rank[coded.indices.to_numpy()]
    order = np.lexsort((within, own))
    return order, np.searchsorted(own[order], np.arange(len(names) + 1))


def _signature(paths: list[Path], n_codes: int) -> dict[str, Any]:
    """Return the sizes and times of the shards that a file is made from, as JSON values."""
    states = [(path.name, path.stat()) for path in paths]
    shards = [[name, state.st_size, state.st_mtime_ns] for name, state in states]
    voices = {"voices": True} if have_voices(paths) else {}
    return {"n_codes": n_codes, "shards": shards, **voices}


def have_voices(paths: list[Path]) -> bool:
    """Return True if every shard has global codes of voices."""

    def names(path: Path) -> list[str]:
        with shard(path):
            return list(pq.read_schema(path).names)

    return all(VOICE_CODES in names(path) for path in paths)


def _source(path: Path) -> Any:
    """Return the signature in a file's metadata; None where there is no file of this kind."""
    if not path.is_file():
        return None
    try:
        schema = pa.ipc.open_file(pa.memory_map(str(path))).schema
    except pa.ArrowInvalid:
        return None
    return json.loads((schema.metadata or {}).get(SOURCE, b"null"))


def _make(paths: list[Path], n_codes: int, path: Path, *, layers: bool, laws: bool) -> None:
    """Write the whole file, with one shard in memory at a time."""
    codes = pa.list_(pa.uint16() if n_codes <= 1 << 16 else pa.int32())
    fields = [("speaker", pa.string()), ("text", pa.string()), ("codes", codes)]
    voices = [pa.field(VOICE_CODES, pa.list_(pa.int32()))] if have_voices(paths) else []
    schema = pa.schema(
        fields
        + voices
        + (_layer_fields(paths, codes) if layers else [])
        + (_law_fields(paths) if laws else []),
        {SOURCE: json_text(_signature(paths, n_codes)).encode()},
    )
    with writing(path) as file, pa.ipc.new_file(file, schema) as writer:
        for table in _read_tables(paths, schema, n_codes):
            writer.write_table(table)


def _layer_fields(paths: list[Path], codes: pa.DataType) -> list[pa.Field]:
    """Return the field of further layers; raise ValueError where a shard has none."""
    _schema(paths, RESIDUAL, NO_LAYERS)
    return [pa.field(RESIDUAL, pa.list_(codes))]


def _law_fields(paths: list[Path]) -> list[pa.Field]:
    """Return the fields of distributions; raise ValueError where the first folder lacks them."""
    first = [path for path in paths if path.parent == paths[0].parent]
    schema = _schema(first, IDS, NO_LAWS)
    return [schema.field(name) for name in COLUMNS]


def _schema(paths: list[Path], column: str, lacking: str) -> pa.Schema:
    """Return the last shard's schema; raise ValueError naming `lacking` if one lacks the column."""
    for path in paths:
        with shard(path):
            schema = pq.read_schema(path)
        if column not in schema.names:
            raise ValueError(f"{path} has no {lacking}")
    return schema


def _read_tables(paths: list[Path], schema: pa.Schema, n_codes: int) -> Iterator[pa.Table]:
    """Yield a table per shard, with nulls where recorded codes have no distributions."""
    for path in paths:
        with shard(path):
            missing = {*COLUMNS} - {*pq.read_schema(path).names}
            present = pa.schema([field for field in schema if field.name not in missing])
            table = read_shard(path, present.names, n_codes).cast(present)
        yield pa.concat_tables([schema.empty_table(), table], promote_options="default")


def read_shard(path: Path, names: list[str], n_codes: int) -> pa.Table:
    """Read columns of a shard, within `with shard(path)`.

    Raise ValueError where it lacks one, or has codes outside [0, n_codes).
    """
    table = pq.read_table(path, columns=names)
    if missing := {*names} - {*table.column_names}:
        raise ValueError(f"{path} has no {missing.pop()}; make the codes with sst-prepare")
    if lost := table.column("codes").null_count:
        raise ValueError(f"{path} has {lost} rows without codes; leave them out, or make them")
    flat = pc.list_flatten(table.column("codes"))
    if RESIDUAL in names:
        inner = pc.list_flatten(pc.list_flatten(table.column(RESIDUAL)))
        flat = pa.chunked_array([*flat.chunks, *inner.cast(flat.type).chunks])
    extremes = pc.min_max(flat).as_py()
    if extremes["min"] is None:
        raise ValueError(f"{path} has no code of any utterance; make the codes with sst-prepare")
    for code in extremes.values():
        if not 0 <= code < n_codes:
            raise ValueError(
                f"{path} has code {code}, the target only {n_codes} codes; "
                "make the codes with the target's own codec"
            )
    return table.select(names)
