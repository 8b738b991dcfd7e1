"""What is shipped works alone: a wheel, an environment of its own, an empty folder, no network.

Dependencies come from the environment that runs the tests (a path in the new one, so that its
editable install of this checkout is not seen); that they install is what `.ci/run` shows.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = (
    *("speculative_tts", "speculative_tts_benchmarks", "speculative_tts_makers", "configs"),
    *("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"),
)

pytestmark = [pytest.mark.slow, pytest.mark.whole]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the console programs of an installed wheel."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("made")
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(made), str(source)]
    subprocess.run([*pip, *build], check=True, capture_output=True)
    venv.create(made / "venv", with_pip=False, symlinks=True)
    python = made / "venv" / "bin" / "python"
    own = sysconfig.get_path("purelib", vars={"base": str(made / "venv")})
    paths = [path for path in sys.path if path.endswith("site-packages")]
    (Path(own) / "dependencies.pth").write_text("\n".join(paths) + "\n")
    install = ["--python", str(python), "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, *install, *map(str, made.glob("*.whl"))], check=True)
    return python.parent


def start(programs: Path, folder: Path, *command: str, **variables: str) -> str:
    """Standard output of a program run in `folder`; it must end with code 0."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= variables
    program = [str(programs / command[0]), *command[1:]]
    done = subprocess.run(
        program, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_installed_package_is_the_wheels(programs: Path, tmp_path: Path) -> None:
    script = "import speculative_tts, speculative_tts.configs as c; print(c.__file__)"
    place = start(programs, tmp_path, "python", "-c", script).strip()
    assert place.startswith(str(programs.parent))


@pytest.mark.native
def test_the_native_step_is_compiled_into_the_wheel(programs: Path, tmp_path: Path) -> None:
    """No compiler is needed then; without both, torch computes."""
    bare = {"CXX": "none", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    script = (
        "from speculative_tts.native import compile, library\n"
        "assert all(library.load(name) for name in {library.instructions(), 'portable'})\n"
        "first = library.kernel_name(); library.loaded.cache_clear(); library.PATTERN = '-'\n"
        "print(first, library.kernel_name())"
    )
    names = start(programs, tmp_path, "python", "-c", script, **bare).split()
    assert names[0].startswith("native-")
    assert names[1] == "torch"
    assert not list(tmp_path.rglob("*.so"))


def test_every_program_explains_itself(programs: Path, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for program in project["scripts"]:
        assert f"Usage: {program}" in start(programs, tmp_path, program, "--help")


def test_first_steps_from_an_empty_folder(programs: Path, tmp_path: Path) -> None:
    start(programs, tmp_path, "sst-speak", "text=alpha seven bravo", "out=hello.wav")
    assert (tmp_path / "hello.wav").stat().st_size > 8000
    start(programs, tmp_path, "sst-decode", "method=ssd", "limit=5", "instrument=2")
    start(programs, tmp_path, "sst-eval", "dnsmos_limit=2")
    start(programs, tmp_path, "sst-report")
    assert list((tmp_path / "runs" / "results").rglob("*.md"))
    assert {path.name for path in tmp_path.iterdir()} == {"hello.wav", "runs"}
