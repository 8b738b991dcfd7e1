"""Commands killed at random moments, on this machine or on a Ray cluster of two nodes.

A moment is drawn by what a command has written, so that it does not depend on how fast or busy the
machine is; a third of them come soon after the start, while nothing is written yet.
"""

import glob
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from run_records import records, untimed

from speculative_tts.workers import LOST_COPY

SMALL = {"object_store_memory": 80 << 20}  # bytes, about the least that Ray takes
LIMIT = 600  # seconds that a command may take
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "RAY_AUTH_MODE": "disabled",  # no token in the home folder
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
}
Kill = Callable[[subprocess.Popen[bytes], Random], bool]


def start(command: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """`sst-<command>` in a process of its own."""
    module = f"speculative_tts.commands.{command.replace('-', '_')}"
    script = f"import sys; from {module} import main; sys.exit(main())"
    environment = {**os.environ, **ENVIRONMENT}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def through(process: subprocess.Popen[bytes]) -> str:
    """What a command says that ends well."""
    said = process.communicate(timeout=LIMIT)[0].decode()
    assert process.returncode == 0, said
    return said


def ended(process: subprocess.Popen[bytes]) -> bool:
    """Is it through? Not where it was killed, or a copy of it."""
    said = process.communicate(timeout=LIMIT)[0].decode()
    cut = process.returncode == -signal.SIGKILL or LOST_COPY in said
    assert cut or process.returncode == 0, said
    return not cut


def written(folder: Path) -> int:
    """Bytes of all files below a folder, which others are writing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def killed(
    command: str,
    arguments: Sequence[str],
    out: Path,
    whole: int,
    kills: Sequence[Kill],
    random: Random,
) -> int:
    """Kill the command by each of `kills`, then let it end; how many of them hit a running one.

    It writes `whole` bytes into `out`. Kills that let the command live are made in a row. One that
    comes too late is made again from the beginning.
    """
    hit, left = 0, list(kills)
    process = start(command, arguments)
    while left:
        begun = written(out)
        goal = random.uniform(begun, max(whole, begun)) if random.random() < 2 / 3 else begun
        wait = random.uniform(0, 3) if goal == begun else 0.0
        until = time.monotonic() + wait
        while process.poll() is None and (written(out) < goal or time.monotonic() < until):
            time.sleep(0.01)
        if process.poll() is None and left[-1](process, random):
            hit += 1
            left.pop()
        if process.poll() is not None:
            if ended(process):
                shutil.rmtree(out, ignore_errors=True)
            process = start(command, arguments)
    while not ended(process):
        process = start(command, arguments)
    return hit


def kill_driver(process: subprocess.Popen[bytes], random: Random) -> bool:
    """The command itself."""
    process.kill()
    return process.wait() == -signal.SIGKILL


def kill_child(process: subprocess.Popen[bytes], random: Random) -> bool:
    """One of its worker processes, or of its copies; itself where there is none."""
    children = [pid for pid, parent, name in processes() if parent == process.pid]
    own = command_of(process.pid)
    workers = [pid for pid in children if "spawn_main" in (said := command_of(pid)) or said == own]
    if not workers:
        return kill_driver(process, random)
    return gone(random.choice(workers))


def untimed_runs(out: Path) -> dict[str, tuple[list[object], dict[str, bytes]]]:
    """By run: records without their times, and audio."""
    found = {}
    for done in out.glob("*/DONE"):
        audio = {path.name: path.read_bytes() for path in (done.parent / "audio").iterdir()}
        rows = records(out, glob.escape(done.parent.name))
        found[done.parent.name] = untimed(rows), audio
    return found


def processes() -> Iterator[tuple[int, int, str]]:
    """Id, parent's id and name of every process."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                name, _, rest = (folder / "stat").read_text().rpartition(")")
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield int(folder.name), int(rest.split()[1]), name.partition("(")[2]


def command_of(pid: int) -> str:
    """Command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(pid: int) -> bool:
    """SIGKILL; False when it had ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class TwoNodes:
    """A Ray cluster on this machine: a head without cores, and two nodes of one core each."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": str(folder)}
        self._cluster = Cluster(initialize_head=True, head_node_args=head | SMALL)
        self._nodes = [self._add(), self._add()]
        self.address: str = self._cluster.address

    def _add(self) -> Any:
        return self._cluster.add_node(num_cpus=1, **SMALL)

    def kill_node(self, process: subprocess.Popen[bytes], random: Random) -> bool:
        """One of the two, with all that runs there; another takes its place."""
        node = self._nodes.pop(random.randrange(2))
        self._cluster.remove_node(node, allow_graceful=False)
        self._nodes.append(self._add())
        return True

    def kill_worker(self, process: subprocess.Popen[bytes], random: Random) -> bool:
        """A worker of the cluster that has a piece; the command where none has."""
        raylets = {node.all_processes["raylet"][0].process.pid for node in self._nodes}
        busy = [
            pid
            for pid, parent, _ in processes()
            if parent in raylets and command_of(pid).startswith("ray::_piece")
        ]
        return gone(random.choice(busy)) if busy else kill_driver(process, random)

    def close(self) -> None:
        """End it."""
        self._cluster.shutdown()


@contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    """A cluster of two nodes, of which nothing is left."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    folder = Path(f"/tmp/sst-two-{os.getpid()}")  # names of sockets must be short
    noted = Path("/tmp/ray")  # where Ray writes the address, whatever folder it is given
    new = not noted.exists()
    noted.mkdir(exist_ok=True)
    try:
        cluster = TwoNodes(folder)
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        for one in (folder, *([noted] if new else [])):
            shutil.rmtree(one, ignore_errors=True)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
