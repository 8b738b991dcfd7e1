"""Check Parquet shards of codes, with errors that name the shard and a remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def shard(path: Path) -> Iterator[None]:
    """Raise ValueError inside the block for no shard, a missing column or another type of one."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, KeyError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"{path} is no shard of codes ({reason}); make it again with sst-prepare"
        ) from error


def check_job(job: int, jobs: int) -> None:
    """Raise ValueError for a job number that is not below `jobs`: it would do another's work."""
    if job >= jobs:
        raise ValueError(f"job {job} is not below jobs {jobs}; give 0 to {jobs - 1}, or more jobs")
