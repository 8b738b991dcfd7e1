"""Run pieces of work as tasks of a Ray cluster, which repeats those of lost workers.

Every node must see the package, the files and the working folder. No usage data is sent, no
dashboard is started, and nothing is installed on workers or copied to them.
"""

import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from speculative_tts.files import running
from speculative_tts.schema.common import ClusterConfig
from speculative_tts.workers import AHEAD, Piece, Result, Workers, lost_worker

logger = logging.getLogger(__name__)

STORE = 80 << 20  # bytes of a local cluster's object store: about the least that Ray takes
SOCKETS = 40  # characters of a folder in which the names of Ray's sockets are not too long
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a piece without num_gpus sees no GPU
}


@dataclass(frozen=True)
class Share:
    """The CPUs and GPUs of a node that a piece gets."""

    cpus: float
    gpus: float


class RayWorkers(Workers):
    """Tasks of a cluster that this process has joined."""

    def __init__(self, config: ClusterConfig) -> None:
        self.share = Share(config.num_cpus or 1, config.num_gpus)
        self._retries, self._alone = config.retries, config.address is None
        self._known = set[Share]()

    def each(
        self,
        work: Callable[[Piece], Result],
        pieces: Iterable[Piece],
        share: Callable[[Piece], Share] | None = None,
    ) -> Iterator[tuple[Piece, Result]]:
        """See `Workers`; `share` returns a piece's share, if not all get the same."""
        import ray

        left, waiting = iter(pieces), dict[Any, Piece]()
        ahead = AHEAD * int(sum(node.cpus for node in nodes()))
        try:
            while True:
                for piece in islice(left, ahead - len(waiting)):
                    task = self._task(share(piece) if share else self.share)
                    waiting[task.remote(work, piece, str(Path.cwd()))] = piece
                if not waiting:
                    return
                (done,), _ = ray.wait([*waiting], num_returns=1)
                yield waiting.pop(done), self._result(done)
        finally:
            for task in waiting:
                ray.cancel(task, force=True)

    def _task(self, got: Share) -> Any:
        import ray

        self.look_for(got)
        keeping: Any = ray.remote(max_calls=0)(_piece)  # what a worker has loaded, it keeps
        return keeping.options(num_cpus=got.cpus, num_gpus=got.gpus, max_retries=self._retries)

    def look_for(self, got: Share) -> None:
        """Raise ValueError if no node has so much: Ray would wait for one, here for ever."""
        if got in self._known:
            return
        there = nodes()
        if not any(got.cpus <= node.cpus and got.gpus <= node.gpus for node in there):
            cpus, gpus = max(node.cpus for node in there), max(node.gpus for node in there)
            why = (
                f"num_cpus {got.cpus:g} and num_gpus {got.gpus:g} of a piece of work are more than "
                f"any node has ({cpus:g} and {gpus:g})"
            )
            if self._alone:
                raise ValueError(f"{why}; lower them, or threads, or give a cluster's address")
            logger.warning("%s: waiting for one that has them", why)
        self._known.add(got)

    def _result(self, done: Any) -> Any:
        import ray

        try:
            return ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            raise lost_worker(self._retries + 1) from error


def nodes() -> list[Share]:
    """Return the CPUs and GPUs of every living node."""
    import ray

    found: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    has = [node["Resources"] for node in found if node["Alive"]]
    return [Share(float(one.get("CPU", 0)), float(one.get("GPU", 0))) for one in has]


@contextmanager
def ray_workers(config: ClusterConfig) -> Iterator[RayWorkers]:
    """Join the cluster at `config.address`, or start one on this machine that ends with this."""
    os.environ.update({name: value for name, value in SETTINGS.items() if name not in os.environ})
    import ray

    with _folder() as folder:
        try:
            _join(config, folder)
            yield RayWorkers(config)
        finally:
            ray.shutdown()


def _join(config: ClusterConfig, folder: Path) -> None:
    """Join; raise ValueError at once if nobody answers, since Ray itself asks for minutes."""
    import ray

    try:
        host, colon, port = (config.address or "").rpartition(":")
        if colon and port.isdecimal() and "/" not in host:
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(**_cluster(config, folder), log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, TimeoutError, socket.gaierror) as error:
        raise ValueError(
            f"cluster.address={config.address} answers to nobody; start one with ray start "
            "--head, or leave it null for one on this machine"
        ) from error
    except ValueError as error:
        if config.address is None:
            raise
        raise ValueError(
            f"cluster.address={config.address} is no address ({error}); give <host>:<port>, auto, "
            "or null for one on this machine"
        ) from error


def _cluster(config: ClusterConfig, folder: Path) -> dict[str, Any]:
    """Return the arguments of `ray.init` that join or start the cluster."""
    if config.address is not None:
        return {"address": config.address}
    return {
        "address": "local",
        "include_dashboard": False,
        "object_store_memory": STORE,
        "_temp_dir": str(folder),
    }


@contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder for a cluster of this process; remove those that killed processes left."""
    place = Path(tempfile.gettempdir())
    place = place if len(str(place)) <= SOCKETS else Path("/tmp")
    for left in place.glob("sst-ray-*"):
        if not running(int(left.name.split("-")[2])):
            shutil.rmtree(left, ignore_errors=True)
    folder = place / f"sst-ray-{os.getpid()}"
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _piece(work: Callable[[Piece], Result], piece: Piece, folder: str) -> Result:
    os.chdir(folder)
    return work(piece)
