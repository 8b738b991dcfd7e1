"""Parquet shards of codes: what is wrong with one is said with its name and a remedy."""

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


def check_job(job: int, jobs: int) -> None:
    """ValueError for a job beyond those that shards are shared out to: it would do another's."""
    if job >= jobs:
        raise ValueError(f"job {job} is not below jobs {jobs}; give 0 to {jobs - 1}, or more jobs")
