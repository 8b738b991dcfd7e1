"""Run the points of a sweep on a Ray cluster: hydra/launcher=ray.

A point whose worker or node is lost is begun again elsewhere and goes on from its records; a run
that is timed has its device for itself. What a job says is in <hydra.sweep.dir>/<number>.log while
it runs, and is printed when it is done.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speculative_tts.commands.composing import Composed, SweepPoint
from speculative_tts.files import patient
from speculative_tts.progress import progress
from speculative_tts.ray_workers import Share, nodes, ray_workers
from speculative_tts.schema.fields import check

if TYPE_CHECKING:
    from omegaconf import DictConfig

Work = Callable[[SweepPoint], tuple[int, str]]


def run_points(work: Work, composed: Composed) -> Iterator[tuple[SweepPoint, int, str]]:
    """Run all points; yield each with its exit code and why, as they end."""
    from omegaconf import OmegaConf

    cluster: Any = OmegaConf.to_object(composed.hydra.launcher)
    check(cluster, "hydra.launcher.")
    points = composed.points
    logged = partial(_run_logged, work, Path(composed.hydra.sweep.dir))
    with (
        ray_workers(cluster) as workers,
        progress(total=len(points), desc="sweep", unit="job") as bar,
    ):

        def share(point: SweepPoint) -> Share:
            return share_of(point.config, workers.share, max(node.cpus for node in nodes()))

        for point, (code, why, said) in workers.each(logged, points, share):
            bar.write(said.rstrip("\n"), file=sys.stderr if code else sys.stdout)
            bar.update()
            yield point, code, why


def share_of(config: "DictConfig", asked: Share, cores: float) -> Share:
    """Return a job's share of a node: as asked, but at least its threads and its copies.

    A timed job gets a device for itself: a GPU, or all `cores` of a node.
    """
    from omegaconf import OmegaConf

    runtime = OmegaConf.select(config, "runtime", default={})
    busy = max(runtime.get("threads", 1), config.get("workers") or 1)
    got = replace(asked, cpus=max(asked.cpus, busy))
    if config.get("timing", 0) == 0:
        return got
    if str(runtime.get("device")).endswith("cuda"):
        return replace(got, gpus=max(1.0, asked.gpus))
    return replace(got, cpus=max(got.cpus, cores))


def _run_logged(work: Work, folder: Path, point: SweepPoint) -> tuple[int, str, str]:
    """Run a point on a worker; return its exit code, why, and what it printed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{point.number}.log"
    with (
        path.open("w", buffering=1, encoding="utf-8") as file,
        redirect_stdout(file),
        redirect_stderr(file),
        patient(),
    ):
        logging.basicConfig(format="%(message)s", stream=file, force=True)
        code, why = work(point)
    return code, why, path.read_text(encoding="utf-8")
