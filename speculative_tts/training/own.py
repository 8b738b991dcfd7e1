"""Decode a target's own codes of the training texts, for its drafts and heads to learn from.

A drafter has to predict what the target says after its own codes, and recorded codes are other
speech. Each text of a codes store is decoded with the target's own sampler in the voice of another
recording of its speaker. The result is a store of the same kind, which trainers of drafts and heads
read by `codes_from=target` or `mix`. Utterances that did not end are left out: they would teach
not to end.

With `laws` a row also has the target's distribution at every drawn token (`training.laws`), and the
voice prompt they depend on, which a trainer must give too. The prompt's codes have distributions as
well, so that a sequence teaches as many positions as without.
"""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from speculative_tts.decoding.builder import Builder
from speculative_tts.decoding.engine import ROWS, Engine
from speculative_tts.files import writing
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import follows_voice
from speculative_tts.progress import progress
from speculative_tts.provenance import content_hash
from speculative_tts.schema.decode import EngineConfig, System
from speculative_tts.schema.own import OwnCodesConfig
from speculative_tts.shards import check_job, shard
from speculative_tts.training.data.columns import VOICE_CODES, have_voices, read_shard
from speculative_tts.training.laws import law_columns, top_distributions
from speculative_tts.training.state import TRAINING, begin, done_before, fitted_before, settings_of

COLUMNS = ["id", "speaker", "split", "text", "codes"]
PIECE = 64  # utterances whose prompts are in memory at once

Row = dict[str, Any]
logger = logging.getLogger(__name__)


def own_codes(config: OwnCodesConfig) -> dict[str, int]:
    """Make this job's shards that `config.out` lacks; return counts over all of the job's shards.

    Raise ValueError where the folder has codes of other settings, or no text reached its end.
    """
    check_job(config.job, config.jobs)
    recorded, out = sorted(Path(config.codes).glob("train-*.parquet")), Path(config.out)
    if not recorded:
        raise ValueError(f"no train-*.parquet in {config.codes}; give codes=<codes of sst-prepare>")
    weights = content_hash(Path(config.target.path))
    settings = settings_of(replace(config, job=0, jobs=1), target_weights=weights)
    done_before(out / TRAINING, settings)
    engine_config = EngineConfig(
        target=config.target, codec=config.codec, sampling=config.sampling, runtime=config.runtime
    )
    engine = Builder(engine_config).engine(System.target)
    if config.laws is not None and engine.sampling.text_rows:
        raise ValueError(
            "laws are kept of codes and the end, sampling.text_rows=true draws other rows too; "
            "give sampling.text_rows=false, or leave laws out"
        )
    counts, mine = {"utterances": 0, "left_out": 0, "codes": 0}, recorded[config.job :: config.jobs]
    fitted = fitted_before(out / TRAINING)
    if config.minutes is not None and mine:
        fitted = fitted or {"limit": _fitting(engine, mine, config, config.minutes)}
        begin(out / TRAINING, settings, fitted)
        config = replace(config, limit=fitted["limit"])
    for path in mine:
        own = out / path.name.replace("train-", "train-own-")
        if not own.is_file():
            rows = _decode_shard(engine, path, config)
            begin(out / TRAINING, settings, fitted)
            with writing(own) as file:
                pq.write_table(pa.Table.from_pylist(rows), file)
        codes = pq.read_table(own, columns=["codes"])["codes"]
        counts["utterances"] += len(codes)
        counts["left_out"] += len(range(_texts(path))[: config.limit]) - len(codes)
        counts["codes"] += len(pc.list_flatten(codes))
    return counts


def _fitting(engine: Engine, shards: list[Path], config: OwnCodesConfig, minutes: float) -> int:
    """Return how many texts of each shard fit into the minutes, by the time of the first ones."""
    begun, most = time.perf_counter(), config.limit or max(map(_texts, shards))
    few = _prompted(engine, shards[0], replace(config, limit=min(ROWS, most)))
    requests = [engine.request(id_, prompt, config.seed) for id_, _, prompt in few]
    for _ in engine.stream(System.target, requests):
        pass
    spent = time.perf_counter() - begun
    each = spent / len(requests)
    limit = min(most, int((60 * minutes - spent) / each / len(shards)))
    if limit < 1:
        enough = math.ceil((spent + each * len(shards)) / 60)
        raise ValueError(
            f"minutes={minutes:g} hold no text of each of {len(shards)} shards at {each:.2g} s a "
            f"text; give minutes={max(enough, int(minutes) + 1)}, or jobs= to share out the shards"
        )
    line = f"{limit} texts a shard fit into {minutes:g} minutes at {each:.2g} s a text"
    logger.info("%s: %s", config.out, line)
    return limit


def _texts(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)


def _read(path: Path, n_codes: int, longest: int | None) -> list[Row]:
    """Read the recordings of a shard that have at most `longest` codes."""
    with shard(path):
        names = [*COLUMNS, VOICE_CODES] if have_voices([path]) else COLUMNS
        rows = read_shard(path, names, n_codes).to_pylist()
    short = [row for row in rows if longest is None or len(row["codes"]) <= longest]
    if not short:
        raise ValueError(f"{path}: all recordings have more than longest={longest} codes; raise it")
    return short


def _prompted(engine: Engine, path: Path, config: OwnCodesConfig) -> list[tuple[str, Row, Prompt]]:
    """Return a shard's first texts, each with its prompt."""
    rows = _read(path, engine.target.layout.n_codes, config.longest)
    follows = follows_voice(engine.target.layout)
    return list(_with_voices(path.stem, rows, config, follows=follows))


def _decode_shard(engine: Engine, path: Path, config: OwnCodesConfig) -> list[Row]:
    """Decode the texts of a shard; return the rows of those that reached their end."""
    prompted = _prompted(engine, path, config)
    ended, why = [], "look at the target, its sampler and max length"
    starts = range(0, len(prompted), PIECE)
    for start in progress(starts, total=len(starts), desc=path.name, unit="piece", disable=None):
        part = {id_: (row, prompt) for id_, row, prompt in prompted[start : start + PIECE]}
        try:
            requests = [engine.request(id_, one, config.seed) for id_, (_, one) in part.items()]
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        for request, outcome in engine.stream(System.target, requests):
            codes, why = engine.codes(outcome), outcome.failure or why
            if outcome.stopped and codes:
                row, prompt = part[request.id]
                ended.append(row | {"codes": codes})
                if prompt.voice_codes:  # of the voice that said them
                    ended[-1][VOICE_CODES] = list(prompt.voice_codes)
                if config.laws is not None:
                    laws = top_distributions(
                        engine.target, request, prompt.codes, outcome.tokens, config.laws
                    )
                    ended[-1] |= law_columns(laws, prompt, engine.target.vocab_size)
    if not ended:
        raise ValueError(f"{path}: no text was said to its end; {why}")
    return sorted(ended, key=lambda row: row["id"])


def _with_voices(
    name: str, rows: list[Row], config: OwnCodesConfig, *, follows: bool
) -> Iterator[tuple[str, Row, Prompt]]:
    """Prompt each text with another recording of its speaker, a function of seed and place.

    A target that follows no recording speaks as its default speaker.
    """
    of_speaker = defaultdict(list)
    for index, row in enumerate(rows):
        of_speaker[row["speaker"]].append(index)
    for index, row in enumerate(rows[: config.limit]):
        others = [other for other in of_speaker[row["speaker"]] if other != index]
        prompt = Prompt(row["text"], voice_codes=_voice_codes(row))
        if others and follows:
            rng = np.random.default_rng([config.seed, index])
            voice = rows[others[int(rng.integers(len(others)))]]
            followed = Prompt(row["text"], voice["text"], torch.tensor(voice["codes"]))
            prompt = replace(followed, voice_codes=_voice_codes(voice))
        yield f"{name}/{index}", row, prompt


def _voice_codes(row: Row) -> tuple[int, ...]:
    """Return the global codes of a row's voice; none where the store has none."""
    return tuple(row.get(VOICE_CODES) or ())
