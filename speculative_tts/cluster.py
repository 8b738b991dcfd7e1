"""Choose the workers that settings ask for: this process, others of this machine, a Ray cluster."""

from contextlib import AbstractContextManager, nullcontext

from speculative_tts.schema.common import Cluster, ClusterConfig
from speculative_tts.workers import HERE, Processes, Workers


def workers(config: ClusterConfig, processes: int) -> AbstractContextManager[Workers]:
    """Return the configured workers, or `processes` of this machine."""
    if config.name is Cluster.ray:
        from speculative_tts.ray_workers import ray_workers

        return ray_workers(config)
    return nullcontext(HERE if processes == 1 else Processes(processes, config.retries))
