"""Work on a Ray cluster of two nodes: what one process makes, whatever is lost on the way."""

import json
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from random import Random

import pytest
from fake_models import FakeModels, write_fake_models
from killing import (
    TwoNodes,
    command_of,
    kill_driver,
    killed,
    processes,
    start,
    through,
    two_nodes,
    untimed_runs,
    written,
)
from omegaconf import OmegaConf

from speculative_tts import ray_workers
from speculative_tts.commands import decode
from speculative_tts.commands.eval import main as evaluate
from speculative_tts.commands.ray_launcher import share_of
from speculative_tts.files import held, patient
from speculative_tts.ray_workers import Share
from speculative_tts.schema.common import ClusterConfig

pytestmark = pytest.mark.whole
POINTS = ("rule.beta=0,0.4", "seed=0,1", "batch_size=2", "timing=0")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> FakeModels:
    return write_fake_models(tmp_path_factory.mktemp("models"), utterances=10)


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoNodes]:
    pytest.importorskip("ray", reason="extra ray")
    with two_nodes() as nodes:
        yield nodes


@pytest.fixture(scope="module")
def whole(models: FakeModels, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of one process."""
    out = tmp_path_factory.mktemp("whole")
    assert decode.main([*models.overrides, *POINTS, f"out={out}"]) == 0
    return out


def on(cluster: TwoNodes, *settings: str) -> list[str]:
    return ["hydra/launcher=ray", f"hydra.launcher.address={cluster.address}", *settings]


@pytest.mark.slow
def test_a_sweep_on_two_nodes_makes_what_one_process_makes(
    cluster: TwoNodes, models: FakeModels, whole: Path, tmp_path: Path
) -> None:
    said = through(start("decode", [*models.overrides, *POINTS, f"out={tmp_path}", *on(cluster)]))
    assert untimed_runs(tmp_path) == untimed_runs(whole)
    assert len(untimed_runs(whole)) == 4
    assert said.count("10 utterances (0 of them from an earlier run)") == 4
    logs = [path.read_text() for path in sorted((tmp_path / ".sweep").glob("*.log"))]
    assert all(f"job {number + 1} of 4" in log for number, log in enumerate(logs))


def sizes_of_which_one_is_too_large(models: FakeModels, out: Path) -> list[str]:
    """Return a sweep of which only a job finds the mistake: the codes are counted where it runs."""
    sizes = ["rule=group", "rule.groups.mean_size=100,2", "limit=1"]
    return [*models.overrides, *sizes, f"out={out}", f"cache={out / 'caches'}"]


@pytest.mark.slow
def test_jobs_of_submitit_make_what_one_process_makes(
    models: FakeModels, whole: Path, tmp_path: Path
) -> None:
    """Its local executor, which has Slurm's interface."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="extra cluster")
    launcher = ["hydra/launcher=submitit_local", "hydra.launcher.timeout_min=10"]
    said = through(start("decode", [*models.overrides, *POINTS, f"out={tmp_path}", *launcher]))
    assert untimed_runs(tmp_path) == untimed_runs(whole)
    assert "all jobs are done; the launcher's folder has what they said" in said
    failing = start("decode", [*sizes_of_which_one_is_too_large(models, tmp_path), *launcher])
    said = failing.communicate()[0].decode()
    assert failing.returncode == 2, said
    assert "sst-decode: a job failed: " in said
    assert "mean_size 100.0 is outside [1, 40], the number of codes" in said


@pytest.mark.slow
def test_scores_shards_and_counts_on_two_nodes_are_those_of_one_process(
    cluster: TwoNodes, whole: Path, tmp_path: Path
) -> None:
    asked = ["cluster=ray", f"cluster.address={cluster.address}"]
    found = {}
    for name, settings in {"here": ["workers=1"], "there": [*asked, "judges.batch=3"]}.items():
        runs = tmp_path / name
        shutil.copytree(whole, runs)
        arguments = [f"runs={runs}", "metrics=[wer,similarity]", "draws=50", *settings]
        through(start("eval", arguments))
        found[name] = [path.read_bytes() for path in sorted(runs.glob("*/scores.jsonl"))]
    assert found["here"] == found["there"]
    assert len(found["here"]) == 4


@pytest.mark.slow
def test_lost_nodes_and_workers_and_a_killed_command_change_nothing(
    cluster: TwoNodes, models: FakeModels, whole: Path, tmp_path: Path
) -> None:
    arguments = [*models.overrides, *POINTS, f"out={tmp_path / 'cut'}", *on(cluster)]
    kills = [kill_driver, cluster.kill_worker, cluster.kill_node]
    assert killed("decode", arguments, tmp_path / "cut", written(whole), kills, Random(0)) == 3
    assert untimed_runs(tmp_path / "cut") == untimed_runs(whole)


@pytest.mark.slow
def test_a_failed_job_does_not_stop_the_others(
    cluster: TwoNodes, models: FakeModels, tmp_path: Path
) -> None:
    settings = [*sizes_of_which_one_is_too_large(models, tmp_path), "timing=0"]
    process = start("decode", [*settings, *on(cluster)])
    said = process.communicate()[0].decode()
    assert process.returncode == 2, said
    assert "a job failed" in said
    assert len(untimed_runs(tmp_path)) == 1


@pytest.mark.slow
def test_a_cluster_of_the_command_leaves_nothing(models: FakeModels, tmp_path: Path) -> None:
    """Neither one that ends nor, after the next, one that is killed."""
    pytest.importorskip("ray", reason="extra ray")
    arguments = [*models.overrides, "seed=0,1", "limit=1", "timing=0", "hydra/launcher=ray"]
    cut = start("decode", [*arguments, f"out={tmp_path / 'cut'}"])
    while not list((tmp_path / "cut").glob(".sweep/*.log")):
        assert cut.poll() is None, cut.communicate()[0].decode()
        time.sleep(0.05)
    cut.send_signal(signal.SIGKILL)
    cut.communicate()
    whole = start("decode", [*arguments, f"out={tmp_path / 'whole'}"])
    through(whole)
    until = time.monotonic() + 60
    while left := [pid for pid, _, _ in processes() if f"sst-ray-{cut.pid}" in command_of(pid)]:
        assert time.monotonic() < until, [command_of(pid) for pid in left]
        time.sleep(0.2)
    assert not [pid for pid, _, _ in processes() if f"sst-ray-{whole.pid}" in command_of(pid)]
    assert not list(Path("/tmp").glob(f"sst-ray-{whole.pid}*"))
    assert not list(Path("/tmp").glob(f"sst-ray-{cut.pid}*"))


ASKED = Share(cpus=1, gpus=0.5)
TIMED = {"timing": 10, "runtime": {"threads": 2, "device": "cpu"}}


@pytest.mark.parametrize(
    ("config", "got"),
    [
        (TIMED, Share(16, 0.5)),  # all of a node
        (TIMED | {"timing": None}, Share(16, 0.5)),  # all utterances are timed
        (TIMED | {"timing": 0}, Share(2, 0.5)),
        (TIMED | {"runtime": {"threads": 3, "device": "cuda"}}, Share(3, 1.0)),
        (TIMED | {"timing": 0, "workers": 4}, Share(4, 0.5)),
        ({"n": 3}, ASKED),
        ({"n": 3, "workers": None}, ASKED),
    ],
)
def test_a_timed_run_has_its_device_for_itself(config: dict[str, object], got: Share) -> None:
    assert share_of(OmegaConf.create(config), ASKED, cores=16) == got


def test_what_no_node_has_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ray waits for a node that has it: in a cluster of this command's own, for ever."""
    monkeypatch.setattr(ray_workers, "nodes", lambda: [Share(2, 1), Share(4, 0)])
    own = ray_workers.RayWorkers(ClusterConfig())
    own.look_for(Share(4, 0))
    own.look_for(Share(2, 0.5))
    with pytest.raises(
        ValueError, match=r"num_cpus 4 and num_gpus 0.5 .* any node has \(4 and 1\)"
    ):
        own.look_for(Share(4, 0.5))
    joined = ray_workers.RayWorkers(ClusterConfig(address="head:6379"))
    for _ in range(2):
        joined.look_for(Share(5, 0))
    assert caplog.text.count("waiting for one that has them") == 1


def test_without_ray_one_line_says_how_to_get_it(
    models: FakeModels,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    row = {"id": "a", "text": "alpha", "audio": str(models.root / "prompt0.wav")}
    (tmp_path / "list.jsonl").write_text(json.dumps(row))
    asked = {
        decode.main: ["seed=0,1", "hydra/launcher=ray", f"out={tmp_path}"],
        evaluate: ["cluster=ray", f"list={tmp_path / 'list.jsonl'}", "metrics=[wer]"],
    }
    for command, arguments in asked.items():
        assert command(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "pip install 'speculative_tts[ray]'" in line


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "answers to nobody; start one with ray start"),
        ("nowhere.invalid:6379", "answers to nobody; start one with ray start"),
        ("nonsense", "cluster.address=nonsense is no address (Invalid address format"),
        ("", "cluster.address= is no address"),
    ],
)
def test_an_address_that_does_not_answer_is_told_at_once(
    address: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray", reason="extra ray")
    asked = ["seed=0,1", "hydra/launcher=ray", f"hydra.launcher.address={address}"]
    assert decode.main([*asked, f"out={tmp_path}"]) == 2
    assert said in capsys.readouterr().err


def enter(folder: Path) -> None:
    with held(folder, "out=<other>"):
        pass


def test_a_job_waits_for_a_run_that_another_has(tmp_path: Path) -> None:
    """Two points may be of one run, and a lost worker's may still be ending."""
    with ThreadPoolExecutor(1) as pool, held(tmp_path, "out=<other>"):
        with pytest.raises(ValueError, match="is in use by another process"):
            pool.submit(enter, tmp_path).result()
        with patient():
            context = copy_context()
        waiting = pool.submit(context.run, enter, tmp_path)
        time.sleep(0.2)
        assert not waiting.done()
    waiting.result(timeout=10)
