"""A split of a codes store as one memory-mapped file: Arrow columns, made once from its shards.

Parquet is compressed and would have to be unpacked into each process, tens of gigabytes for
50,000 hours. Here all processes of a machine share the pages of `<codes>/columns/<split>.arrow`:
codes of 16 bits where they fit. The first process makes it, the others wait; it is made again when
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
from speculative_tts.training.laws import COLUMNS, IDS, LOGS, REST, VOICE, VOICE_TEXT, Laws

FOLDER = "columns"
RESIDUAL = "residual_codes"
NO_LAYERS = (
    "residual_codes; a NAR learns from all layers: give codes_from=recorded and codes of the "
    "target's codec, or joint.nar_epochs=0"
)
NO_LAWS = "laws; make the codes with sst-own-codes laws=32, or leave laws out"
SOURCE = b"made of"  # key of the file's metadata


@dataclass(frozen=True)
class Utterance:
    """One recording of a codes store."""

    text: str
    codes: list[int]
    residual: tuple[list[int], ...] = ()  # further layers of codes, where they were asked for
    laws: Laws | None = None  # of codes of `voice`, own codes and the end, where kept and asked for
    voice: "Utterance | None" = None


class Columns:
    """Utterances by number: those of a speaker together, speakers in order of their names.

    With `by_words` those of a speaker are in order of how many words they have. Further layers of
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
        self._lawful = IDS in reader.schema.names

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
        """Columns of `<split>-*.parquet` of the folders, with `layers` of all codes.

        The first folder keeps them; with `laws` its shards have the target's laws.
        FileNotFoundError where one has no shards; ValueError for codes out of range, for shards
        without the laws, or where the folder cannot be written.
        """
        found = [sorted(folder.glob(f"{split}-*.parquet")) for folder in folders]
        for folder, shards in zip(folders, found, strict=True):
            if not shards:
                raise FileNotFoundError(f"no {split}-*.parquet in {folder}; run sst-prepare first")
        paths = [path for shards in found for path in shards]
        more = "-layers" * layers + "-laws" * laws + "-mix" * (len(found) > 1)
        made = folders[0] / FOLDER / f"{split}{more}.arrow"
        if _source(made) != _signature(paths, n_codes):
            try:
                with held(made.parent):
                    if _source(made) != _signature(paths, n_codes):  # another made it meanwhile
                        _make(paths, n_codes, made, layers=layers, laws=laws)
            except PermissionError as error:
                raise ValueError(
                    f"{made.parent} cannot be written; training keeps columns of the codes there: "
                    "copy the codes to a folder where you may write"
                ) from error
        return cls(made, by_words=by_words)

    def __len__(self) -> int:
        """Utterances."""
        return len(self._order)

    def __getitem__(self, number: int) -> Utterance:
        """The utterance `number`."""
        place = int(self._order[number])
        index = int(np.searchsorted(self._ends, place, side="right"))
        batch = self._batches[index]
        row = place - int(self._ends[index]) + batch.num_rows
        codes = batch.column("codes")[row].values.to_numpy()
        residual = batch.column(RESIDUAL)[row].as_py() if self._layered else ()
        said = Utterance(batch.column("text")[row].as_py(), codes.tolist(), tuple(residual))
        if not self._lawful or not batch.column(IDS)[row].is_valid:
            return said
        *laws, voice = (batch.column(n)[row].values.to_numpy() for n in (IDS, LOGS, REST, VOICE))
        text = batch.column(VOICE_TEXT)[row].as_py()
        prompt = Utterance(text, voice.tolist()) if len(voice) else None
        return replace(said, laws=Laws.read(*laws), voice=prompt)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Codes of each utterance, by number."""
        found = [pc.list_value_length(batch.column("codes")) for batch in self._batches]
        return np.concatenate([one.to_numpy() for one in found])[self._order].astype(np.int64)

    @property
    def layers(self) -> set[int]:
        """How many layers of codes utterances have."""
        if not self._layered:
            return {1}
        further = (pc.list_value_length(batch.column(RESIDUAL)) for batch in self._batches)
        return {1 + count for one in further for count in one.unique().to_pylist()}

    def speaker(self, number: int) -> int:
        """Which speaker says it: its utterances are numbered from starts[i] to starts[i + 1]."""
        return int(np.searchsorted(self.starts, number, side="right")) - 1


def _by_name(
    speakers: pa.ChunkedArray, within: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places in the file in our order, and the first number of each speaker with the end.

    A speaker's are in order of `within`, then of the file.
    """
    coded = speakers.combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    rank = np.argsort(np.array(sorted(range(len(names)), key=names.__getitem__)))
    own = rank[coded.indices.to_numpy()]
    order = np.lexsort((within, own))
    return order, np.searchsorted(own[order], np.arange(len(names) + 1))


def _signature(paths: list[Path], n_codes: int) -> dict[str, Any]:
    """What a file is made of, as JSON values."""
    states = [(path.name, path.stat()) for path in paths]
    shards = [[name, state.st_size, state.st_mtime_ns] for name, state in states]
    return {"n_codes": n_codes, "shards": shards}


def _source(path: Path) -> Any:
    """The signature in a file's metadata; None where there is no file of this kind."""
    if not path.is_file():
        return None
    try:
        schema = pa.ipc.open_file(pa.memory_map(str(path))).schema
    except pa.ArrowInvalid:
        return None
    return json.loads((schema.metadata or {}).get(SOURCE, b"null"))


def _make(paths: list[Path], n_codes: int, path: Path, *, layers: bool, laws: bool) -> None:
    """Write the file whole, a shard in memory at a time."""
    codes = pa.list_(pa.uint16() if n_codes <= 1 << 16 else pa.int32())
    fields = [("speaker", pa.string()), ("text", pa.string()), ("codes", codes)]
    schema = pa.schema(
        fields
        + (_layer_fields(paths, codes) if layers else [])
        + (_law_fields(paths) if laws else []),
        {SOURCE: json.dumps(_signature(paths, n_codes)).encode()},
    )
    with writing(path) as file, pa.ipc.new_file(file, schema) as writer:
        for table in _shards(paths, schema, n_codes):
            writer.write_table(table)


def _layer_fields(paths: list[Path], codes: pa.DataType) -> list[pa.Field]:
    """The column of further layers. ValueError where a shard has none."""
    _schema(paths, RESIDUAL, NO_LAYERS)
    return [pa.field(RESIDUAL, pa.list_(codes))]


def _law_fields(paths: list[Path]) -> list[pa.Field]:
    """Columns of laws. ValueError where a shard of the first folder has none."""
    first = [path for path in paths if path.parent == paths[0].parent]
    schema = _schema(first, IDS, NO_LAWS)
    return [schema.field(name) for name in COLUMNS]


def _schema(paths: list[Path], column: str, lacking: str) -> pa.Schema:
    """Of the last of these shards. ValueError, `lacking`, where one has no such column."""
    for path in paths:
        with shard(path):
            schema = pq.read_schema(path)
        if column not in schema.names:
            raise ValueError(f"{path} has no {lacking}")
    return schema


def _shards(paths: list[Path], schema: pa.Schema, n_codes: int) -> Iterator[pa.Table]:
    """A table each, with null for laws of recorded codes."""
    for path in paths:
        with shard(path):
            lacks = {*COLUMNS} - {*pq.read_schema(path).names}
            there = pa.schema([field for field in schema if field.name not in lacks])
            table = read_shard(path, there.names, n_codes).cast(there)
        yield pa.concat_tables([schema.empty_table(), table], promote_options="default")


def read_shard(path: Path, names: list[str], n_codes: int) -> pa.Table:
    """These columns of a shard. ValueError where it lacks one, or has other codes than it should.

    To be read within `shard`.
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
    ends = pc.min_max(flat).as_py()
    if ends["min"] is None:
        raise ValueError(f"{path} has no code of any utterance; make the codes with sst-prepare")
    for code in ends.values():
        if not 0 <= code < n_codes:
            raise ValueError(
                f"{path} has code {code}, the target only {n_codes} codes; "
                "make the codes with the target's own codec"
            )
    return table.select(names)
