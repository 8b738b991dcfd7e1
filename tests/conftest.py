"""Hypothesis profiles (`make test`: quick; before a release: thorough), and shared fixtures."""

import gc
import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors: threads only cost

import own_process
import pytest
import shapes
import torch
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from fake_models import FakeModels

shapes.check_shapes_alone()  # before the conftest.py of any folder imports the package
if not torch.cuda.is_available():
    # Before anything imports Triton, as transformers does: what was imported is not interpreted.
    os.environ["TRITON_INTERPRET"] = "1"

slow = [HealthCheck.too_slow]  # the machine may be busy; that is no fault of a test
settings.register_profile("default", deadline=None, max_examples=50, suppress_health_check=slow)
settings.register_profile("quick", deadline=None, max_examples=15, suppress_health_check=slow)
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=slow)
settings.register_profile(  # a failure is enough, the smallest one is not looked for
    "mutants",
    deadline=None,
    derandomize=True,
    max_examples=20,
    phases=[Phase.explicit, Phase.generate],
)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector what is there for good: modules and tests.

    It would look for circles every 700 objects while tests are imported, and later every 20,000:
    a tenth of composing a configuration.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


def _need_native() -> None:
    from speculative_tts.native.compile import CannotCompileError
    from speculative_tts.native.library import loaded

    try:
        loaded()
    except CannotCompileError as error:
        pytest.skip(str(error))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What the compiled step alone does is tested where it can be compiled."""
    if item.get_closest_marker("native"):
        _need_native()


@pytest.fixture(scope="module", params=["torch", "native"])
def kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    """Models that are loaded now compute with each; module fixtures that load them ask for it."""
    from speculative_tts.native.library import select
    from speculative_tts.schema.decode import Kernels

    if request.param == "native":
        _need_native()
    select(Kernels[request.param])
    yield request.param
    select(Kernels.auto)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> "FakeModels":
    """Little random models on disk, which the tests of a module share. Do not write into them."""
    from fake_models import write_fake_models

    return write_fake_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def torchs_kernels() -> Iterator[None]:
    """Compute with torch throughout a module, which asks for it by `usefixtures`."""
    from speculative_tts.native.library import select
    from speculative_tts.schema.decode import Kernels

    select(Kernels.torch)
    yield
    select(Kernels.auto)


@pytest.fixture(autouse=True)
def _own_process() -> Iterator[None]:
    """What a test says of its process, precision, threads and kernels, ends with it.

    Trainings left two threads, which waited for each other on cores that other workers hold.
    Commands left torch's kernels, so tests of the compiled step were skipped after them.
    """
    from speculative_tts.native.library import chosen, select

    before = chosen()
    yield
    own_process.renew()
    select(before)


@pytest.fixture(autouse=True, scope="session")
def _short_probes() -> Iterator[None]:
    """Probe the speed of memory for a moment: each bench otherwise reads 512 MB.

    A timed run reads none: by chance it would be called starved on a busy machine.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("speculative_tts.native.memory.SECONDS", 0.005)
        patch.setattr("speculative_tts.runs.clocks.bandwidth", lambda _: 40e9)
        patch.setattr("speculative_tts.bench.roofline.MAIN", 4 << 20)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waits_for_disks() -> Iterator[None]:
    """Let no file wait for the disk, some 10 ms each: only a power failure tells the difference.

    Tests of what is waited for count the calls by a patch of their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr("soundfile.SoundFile.flush", lambda _: None)  # fsync's, at each close
        patch.setattr("speculative_tts.runs.run.sync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def blank_figures() -> Iterator[None]:
    """Reports write figures that nobody has drawn."""
    from synthetic_runs import undrawn

    with undrawn():
        yield


@pytest.fixture
def drawn_figures(blank_figures: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are drawn after all."""
    from speculative_tts.reporting.figures import draw

    monkeypatch.setattr("speculative_tts.reporting.write.draw", draw)
