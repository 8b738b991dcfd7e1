"""Hydra's launcher `ray`: points of a sweep on the workers of a Ray cluster.

A point whose worker or node is lost is begun again elsewhere and goes on from its records; a run
that is timed has its device for itself. What a job says is in <hydra.sweep.dir>/<number>.log while
it runs, and is printed when it is done.
"""

import logging
import sys
from collections.abc import Collection, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from speculative_tts.files import patient
from speculative_tts.progress import progress, watched
from speculative_tts.ray_workers import Share, nodes, ray_workers
from speculative_tts.schema.common import Cluster, ClusterConfig
from speculative_tts.schema.limits import check

TARGET = "hydra_plugins.speculative_tts.RayLauncher"  # Hydra takes launchers of such names alone


@dataclass
class RayLauncherConfig(ClusterConfig):
    """The keys of `hydra.launcher`: those of a cluster; a piece of work is a job."""

    name: Cluster = Cluster.ray
    _target_: str = TARGET


@dataclass(frozen=True)
class Sweep:
    """What all points of a sweep share."""

    context: HydraContext
    task: TaskFunction
    config: DictConfig

    def point(self, number: int, overrides: Sequence[str]) -> DictConfig:
        """The configuration of one."""
        config = self.context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        return config


Point = tuple[int, tuple[str, ...]]


class RayLauncher(Launcher):
    """Runs jobs on workers of a cluster."""

    def __init__(self, **settings: Any) -> None:
        self._cluster = ClusterConfig(**settings)
        self._sweep: Sweep | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Called by Hydra before `launch`."""
        check(self._cluster, "hydra.launcher.")
        self._sweep = Sweep(hydra_context, task_function, config)

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run all points; returns what came of them, in their order."""
        assert self._sweep is not None
        sweep, found = self._sweep, dict[int, JobReturn]()
        points = [(initial_job_idx + n, tuple(one)) for n, one in enumerate(job_overrides)]
        shared = set(points[0][1]).intersection(*(one for _, one in points))
        work = partial(run_point, sweep, Singleton.get_state())
        with (
            ray_workers(self._cluster, threads=1) as workers,
            progress(total=len(points), desc="sweep", unit="job") as bar,
        ):

            def share(point: Point) -> Share:
                cores = max(node.cpus for node in nodes())
                return share_of(sweep.point(*point), workers.share, cores)

            def tell(places: list[tuple[Point, str]]) -> None:
                text = "; ".join(f"{where}: {_own(one, shared)}" for (_, one), where in places)
                bar.set_postfix_str(text, refresh=watched())

            workers.on_places = tell
            for (number, _), (found[number], said) in workers.each(work, points, share):
                failed = found[number].status is JobStatus.FAILED
                bar.write(said.rstrip("\n"), file=sys.stderr if failed else sys.stdout)
                bar.update()
        return [found[number] for number, _ in points]


def share_of(config: DictConfig, asked: Share, cores: float) -> Share:
    """What a job gets: what is asked for, at least its threads and the copies of itself.

    A timed one gets a device for itself.
    """
    runtime = OmegaConf.select(config, "runtime", default={})
    busy = max(runtime.get("threads", 1), config.get("workers") or 1)
    got = replace(asked, cpus=max(asked.cpus, busy))
    if config.get("timing", 0) == 0:
        return got
    if str(runtime.get("device")).endswith("cuda"):
        return replace(got, gpus=max(1.0, asked.gpus))
    return replace(got, cpus=max(got.cpus, cores))


def run_point(sweep: Sweep, state: dict[type, Singleton], point: Point) -> tuple[JobReturn, str]:
    """One job, on a worker: what came of it, and what it said."""
    Singleton.set_state(state)
    setup_globals()
    config = sweep.point(*point)
    folder = Path(str(config.hydra.sweep.dir))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{point[0]}.log"
    with (
        path.open("w", buffering=1, encoding="utf-8") as file,
        redirect_stdout(file),
        redirect_stderr(file),
        patient(),
    ):
        logging.basicConfig(format="%(message)s", stream=file, force=True)
        made = run_job(
            hydra_context=sweep.context,
            task_function=sweep.task,
            config=config,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )
    return made, path.read_text(encoding="utf-8")


def register() -> None:
    """Make the launcher known to Hydra, which looks for others in installed packages alone."""
    ConfigStore.instance().store(group="hydra/launcher", name="ray", node=RayLauncherConfig)
    Plugins.instance().class_name_to_class[TARGET] = RayLauncher


def _own(overrides: Sequence[str], shared: Collection[str]) -> str:
    """What a job is among the others: the settings that not all have."""
    return " ".join(one for one in overrides if one not in shared)
