"""Write an untrained VALL-E for a corpus: official shapes and spreads, the corpus's phonemes."""

from pathlib import Path

import pyarrow.parquet as pq
import torch

from speculative_tts.models.families.valle.checkpoint import Valle
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.importing import Options, write_folder
from speculative_tts.models.families.valle.layout import PhonemeLayout
from speculative_tts.models.families.valle.text import Symbols, phonemes
from speculative_tts.progress import progress
from speculative_tts.schema.prepare import FreshConfig
from speculative_tts.shards import shard

EMPTY = "<eps>"  # in every official table of symbols


def fresh_checkpoint(
    config: FreshConfig, options: Options, folder: Path, language: str
) -> PhonemeLayout:
    """Write an untrained checkpoint for the texts and layers of a codes store; return its layout.

    Raise ValueError when the store has no codes, or more symbols than the official text embedding.
    """
    symbols, layers = {EMPTY}, 0
    paths = sorted(Path(config.codes or "").glob("*.parquet"))
    if not paths:
        raise ValueError(f"no *.parquet in {config.codes}; run sst-prepare, or give another folder")
    for path in progress(paths, desc="phonemes", unit="shard", disable=None):
        with shard(path):
            table = pq.read_table(path, columns=["text", "residual_codes"])
        for text in table.column("text").to_pylist():
            symbols.update(phonemes(text, language))
        layers = max([layers, *(1 + len(residual) for residual in table.column(1)[:1].to_pylist())])
    known = Symbols.of(symbols)
    torch.manual_seed(config.seed)
    shape = ValleConfig(
        dim=config.dim,
        heads=options.heads,
        layers=config.layers,
        quantizers=layers,
        n_codes=config.n_codes,
        prefix_mode=options.prefix_mode,
    )
    if len(known.ids) > shape.text_tokens:
        raise ValueError(
            f"{config.codes} has {len(known.ids)} symbols of phonemes, more than the "
            f"{shape.text_tokens} that VALL-E embeds; leave texts of other languages out"
        )
    return write_folder(Valle.build(shape), known, folder, language)
