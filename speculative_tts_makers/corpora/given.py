"""Add to a tiny list the codes of the exact features that its recordings were made from.

Losses by the analysis of a recording and by its file format are then not counted as the codec's.
Words and speakers are a pure function of the settings; Flite speaks them again.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from speculative_tts.codecs import world
from speculative_tts.codecs.tiny import WorldCodec
from speculative_tts.progress import progress
from speculative_tts.records import ListItem, to_row, write_jsonl
from speculative_tts.schema.prepare import PrepareConfig
from speculative_tts_makers.corpora.features import frames_as
from speculative_tts_makers.corpora.plan import ListedUtterance, Words, plan_list


def plan_rows(config: PrepareConfig) -> dict[str, ListedUtterance]:
    """Plan the rows of the test list and of the development list, by id."""
    taken: set[Words] = set()
    counts = {"test": config.test_rows_per_speaker, "dev": config.dev_rows_per_speaker}
    lists = [plan_list(name, count, config.seed, taken) for name, count in counts.items()]
    return {row.id: row for _, rows in lists for row in rows}


def write_given(
    items: Sequence[ListItem], config: PrepareConfig, codec: WorldCodec, path: Path
) -> int:
    """Write the list with `reference_codes`; return its length, or raise ValueError for another."""
    known = plan_rows(config)
    for item in items:
        if item.id not in known or " ".join(known[item.id].words) != item.text:
            raise ValueError(
                f"list_file: row {item.id} is not what sst-prepare speaks with seed={config.seed}; "
                "give tiny:testset/list.jsonl, or list.jsonl of its dev/ or test/"
            )
    rows = [_row(item, known[item.id], codec) for item in progress(items, desc="features")]
    folder = path.parent.absolute()
    audio = ("prompt_audio", "reference_audio")
    write_jsonl(
        path,
        (row | {key: row[key] and os.path.relpath(row[key], folder) for key in audio}
         for row in map(to_row, rows)),
    )  # fmt: skip
    return len(rows)


def _row(item: ListItem, planned: ListedUtterance, codec: WorldCodec) -> ListItem:
    _, frames = frames_as(planned.words, planned.speaker, planned.duration_stretch)
    codes = np.atleast_2d(codec.encode_features(world.frame_features(frames)))
    return replace(item, reference_codes=tuple(map(tuple, codes.tolist())))
