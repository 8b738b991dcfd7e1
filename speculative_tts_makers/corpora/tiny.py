"""Prepare the tiny corpus: takes -> features -> codec -> codes, and the evaluation lists.

Every stage writes whole files atomically and skips those that exist, so a killed run continues.
"""

from collections import deque
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from speculative_tts.cluster import workers
from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.corpora.settings import require_settings
from speculative_tts.progress import progress
from speculative_tts.schema.prepare import PrepareConfig
from speculative_tts_makers.corpora.codec_training import train_codec
from speculative_tts_makers.corpora.features import read_features, write_feature_shard
from speculative_tts_makers.corpora.heldout import write_dev_codes
from speculative_tts_makers.corpora.plan import Take, Words, plan_list, plan_takes
from speculative_tts_makers.corpora.postnet import with_postnet
from speculative_tts_makers.corpora.residual import CODES, ResidualConfig, prepare_residual
from speculative_tts_makers.corpora.take_codes import CODES_SCHEMA, RESIDUAL_SCHEMA, write_codes
from speculative_tts_makers.corpora.testset import write_list

SETTINGS = "prepared.json"
FIXED = (  # settings that all pieces of a folder share
    *("n_takes", "n_fine_takes", "takes_per_shard", "n_codes", "n_fine_codes", "seed"),
    *("test_rows_per_speaker", "dev_rows_per_speaker"),
)


@dataclass(frozen=True)
class CodebookConfig:
    """Settings of a codec with one codebook: its entries, and the shards that k-means reads."""

    n_codes: int
    shards: int = 30
    iterations: int = 25


@dataclass
class TinyCorpusRecipe(PrepareConfig):
    """Sizes of the tiny corpus: the command's keys and fixed ones."""

    warps_per_take: tuple[int, int] = (1, 3)
    takes_per_shard: int = 100
    residual: ResidualConfig = field(default_factory=ResidualConfig)


def prepare_tiny(config: TinyCorpusRecipe, out: Path) -> None:
    """Make everything under `out`: features/, codec/, codes/*.parquet, dev/ and test/.

    It also makes codec_fine/ and codes_fine/ for the fine target, codec_residual/ and
    codes_residual/ for the VALL-E-shaped one.
    """
    require_settings(out / SETTINGS, {key: getattr(config, key) for key in FIXED})
    reserved: set[Words] = set()
    test = plan_list("test", config.test_rows_per_speaker, config.seed, reserved)
    dev = plan_list("dev", config.dev_rows_per_speaker, config.seed, reserved)
    n_takes = config.n_takes + config.n_fine_takes
    takes = plan_takes(n_takes, config.warps_per_take, config.seed, reserved)
    every = make_features(takes, config, out / "features")
    shards = every[: ceil(config.n_takes / config.takes_per_shard)]
    books = {
        "": (CodebookConfig(config.n_codes), shards),
        "_fine": (CodebookConfig(config.n_fine_codes, 40, 15), every),
    }
    for suffix, (book, encoded) in books.items():
        codec = make_codec(shards, book, config, out / f"codec{suffix}")
        codes = out / f"codes{suffix}"
        write_codes(encoded, codec, codes, CODES_SCHEMA)
        write_dev_codes(*dev, codec, codes / "dev-0000.parquet", CODES_SCHEMA)
    layered = prepare_residual(every, config.residual, config.postnet_steps, out)
    write_dev_codes(*dev, layered, out / CODES / "dev-0000.parquet", RESIDUAL_SCHEMA)
    write_list(*dev, out / "dev")
    write_list(*test, out / "test")


def make_features(takes: list[Take], config: TinyCorpusRecipe, folder: Path) -> list[Path]:
    """Speak all takes into feature shards; return the shards in order."""
    folder.mkdir(parents=True, exist_ok=True)
    size = config.takes_per_shard
    groups = [takes[i : i + size] for i in range(0, len(takes), size)]
    paths = [folder / f"shard-{i:04d}.npz" for i in range(len(groups))]
    tasks = zip(groups, paths, strict=True)
    missing = [(group, config.seed, path) for group, path in tasks if not path.exists()]
    with workers(config.cluster, config.workers) as many:
        written = many.each(write_feature_shard, missing)
        deque(progress(written, total=len(missing), desc="speaking"), maxlen=0)
    return paths


def make_codec(
    shards: list[Path], book: CodebookConfig, config: TinyCorpusRecipe, folder: Path
) -> TinyCodec:
    """Train the codec on the first shards, unless `folder` has one."""
    if not (folder / "codec.json").exists():
        features = read_features(shards[: book.shards])
        codec = train_codec(features, book.n_codes, book.iterations, config.seed)
        with_postnet(codec, features, config.postnet_steps, config.seed).save(folder)
    return TinyCodec.load(folder)
