"""Reading Parquet shards of codes: what is wrong with one is said with its name and a remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def shard(path: Path) -> Iterator[None]:
    """ValueError for a file that is no shard, lacks a column, or has one of another type."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, KeyError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"{path} is no shard of codes ({reason}); make it again with sst-prepare"
        ) from error
