"""What only a wheel would show: forgotten packages, data files, imports against the rules."""

import importlib.util
import subprocess
import sys
import tomllib
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from speculative_tts import assets

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOOLS = PROJECT["tool"]["setuptools"]
PACKAGES = ("speculative_tts", "speculative_tts_benchmarks", "speculative_tts_makers")


def test_every_package_is_listed() -> None:
    tree = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert set(TOOLS["packages"]) == tree | {"speculative_tts.configs"}


def test_every_file_of_the_package_is_python_or_listed_data() -> None:
    data = set()
    for package, patterns in TOOLS["package-data"].items():
        folder = ROOT.joinpath(*package.split("."))
        for pattern in patterns:
            data |= set(folder.glob(pattern))
    for path in chain.from_iterable((ROOT / package).rglob("*") for package in PACKAGES):
        if path.is_file() and path.suffix not in {".py", ".pyc"}:
            assert path in data, f"{path.relative_to(ROOT)} would be missing from the wheel"


def test_no_two_files_of_tests_have_one_name() -> None:
    """pytest collects only one of them: each folder passed alone, and the whole suite stopped."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("*.py"))
    assert {name for name, count in names.items() if count > 1} <= {"conftest.py"}


@pytest.mark.parametrize("program", sorted(PROJECT["project"]["scripts"]))
def test_every_program_has_its_module(program: str) -> None:
    module, _, name = PROJECT["project"]["scripts"][program].partition(":")
    assert module == "speculative_tts.commands." + program.removeprefix("sst-").replace("-", "_")
    assert name == "main"
    assert importlib.util.find_spec(module) is not None


def test_commands_import_nothing_slow_at_the_top() -> None:
    """So that --help and mistakes are answered at once."""
    modules = [entry.partition(":")[0] for entry in PROJECT["project"]["scripts"].values()]
    slow = {"torch", "transformers", "scipy", "matplotlib", "pyarrow", "onnxruntime"}
    script = f"import sys, {', '.join(modules)}; print(*({slow} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_pinned_versions_satisfy_the_project() -> None:
    from packaging.requirements import Requirement

    pins = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pin = Requirement(line)
            pins[pin.name.lower()] = pin
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    assert "torch" in pins
    for requirement in map(Requirement, wanted):
        exact = [s.version for s in getattr(pins.get(requirement.name.lower()), "specifier", [])]
        if exact and requirement.name != "setuptools":
            assert requirement.specifier.contains(exact[0]), requirement


def test_what_ships_has_a_name_and_a_place(tmp_path: Path) -> None:
    for path in ("tiny:target", "tiny:testset/list.jsonl", str(tmp_path), "runs/tiny:x"):
        assert assets.named(str(assets.resolve(path))) == path
    assert assets.resolve("tiny:target").is_dir()


def test_what_is_not_there_is_told_with_where_it_was_looked_for() -> None:
    with pytest.raises(ValueError, match=r"/nowhere does not exist; give a path that does$"):
        assets.require(Path("/nowhere"))
    with pytest.raises(ValueError, match=r"^models/x does not exist .*docs/paper-scale\.md"):
        assets.require(Path("models/x"))
    for name, others in (
        ("target_fien", " or one of tiny:target_fine"),
        ("target_block", ""),  # once all that ships was named, and no block does
    ):
        message = f"^tiny:{name} is not shipped; give an existing path{others}$"
        with pytest.raises(ValueError, match=message):
            assets.require(assets.resolve(f"tiny:{name}"))
    with pytest.raises(ValueError, match=r"^tiny:nothing is not shipped; give an existing path or"):
        assets.require(assets.resolve("tiny:nothing"))


def test_readme_gets_to_the_point_and_the_commands_exist() -> None:
    top = (ROOT / "README.md").read_text().splitlines()[:30]
    listed = subprocess.run(
        ["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True
    ).stdout
    for target in ("make reproduce", "make test"):
        assert any(line.startswith(target) for line in top)
        assert f"  {target} " in listed


def test_contributing_stays_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) < 60
