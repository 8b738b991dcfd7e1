"""What a user can get wrong, over all commands: one line with value and remedy, exit code 2.

Nothing is left behind, nothing hangs, and nobody sees a traceback. `refused_runs` and
`refused_making` have the cases, `bad_files` what keys may be pointed at.
"""

import importlib
import json
import shutil
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from bad_files import write_world
from refused_making import REFUSED_IN_MAKING
from refused_runs import DECODE, REFUSED_OF_RUNS

from speculative_tts.commands.app import Command
from speculative_tts.training.data.columns import FOLDER

SECONDS = 300  # of a busy machine; a hang is longer
ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
TABLE = [
    (command.partition(" ")[0], f"{base} {change}", said)
    for command, (base, changes) in (REFUSED_OF_RUNS | REFUSED_IN_MAKING).items()
    for change, said in changes.items()
]


def tried() -> Iterator[object]:
    """Yield the cases; of what several commands say in the same words `make test` takes the first.

    That a number beyond its limits is refused is tested for every number by
    `tests/unit/test_limits.py`; here stands one of each command and of each group of its settings.
    """
    seen: set[tuple[str, str]] = set()
    for command, arguments, said in TABLE:
        kind = (arguments if said == "; " else "", said)
        marks = [pytest.mark.whole] if kind in seen else []
        seen.add(kind)
        yield pytest.param(command, arguments, said, marks=marks)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_world(tmp_path_factory.mktemp("w"))
    row = {"id": "a", "text": "one", "audio": "prompt0.wav"}
    (root / "audio.jsonl").write_text(json.dumps(row) + "\n")
    return root


@pytest.fixture
def _limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A case that hangs fails instead."""

    def hang(*_: object) -> None:
        pytest.fail(f"still running after {SECONDS} s")

    monkeypatch.delenv("SST_DEBUG", raising=False)
    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def command_of(name: str) -> Command[object]:
    main: Command[object] = importlib.import_module(f"speculative_tts.commands.{name}").main
    return main


def everything(folder: Path) -> set[Path]:
    """What is in a folder, but for the locks of trainings that read its codes."""
    return {path for path in folder.rglob("*") if not {FOLDER, ".lock"} & set(path.parts)}


def test_the_table_is_long_and_has_every_command() -> None:
    assert len(TABLE) >= 200
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    names = {name.removeprefix("sst-").replace("-", "_") for name in scripts}
    assert {command for command, _, _ in TABLE} == names


@pytest.mark.usefixtures("_limited")
@pytest.mark.parametrize(("command", "arguments", "said"), [*tried()])
def test_one_line_exit_code_2_and_nothing_left(
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    command: str,
    arguments: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"w": world, "t": tmp_path, "g": GOLDEN}
    before = everything(world)
    main = command_of(command)
    assert main([argument.format(**names) for argument in last(arguments)]) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if line and "%|" not in line]
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"{main.program}: error: ")
    assert said.format(**names) in lines[0]
    assert "Traceback" not in lines[0]
    assert "SST_DEBUG" not in lines[0]  # what is said of an error of another library
    assert everything(tmp_path) == set()
    assert everything(world) == before


def last(arguments: str) -> list[str]:
    """The arguments, of a key that is there twice the last."""
    return list({one.partition("=")[0]: one for one in arguments.split()}.values())


# What is written into a finished, scored run -> what sst-eval and sst-report say of it.
RUNS = {
    ("records.jsonl", '{"text": "one"}\n'): ":1: id is missing; give text in quotes",
    ("records.jsonl", '{"id": 5}\n'): ":1: id is 5; give text in quotes",
    ("records.jsonl", "[1]\n"): ":1 is not a JSON object but [1]; give one a line",
    ("records.jsonl", "\udcff\n"): ":1 is not a JSON object",
    ("config.json", "[]"): "config.json is not a JSON object but []; make the run again",
    ("config.json", "{"): "config.json is not a JSON object",
}
REPORTED = {
    **RUNS,
    ("records.jsonl", '{"text": "one"}\n'): ":1: id is missing; make the file again",
    ("records.jsonl", '{"id": 5}\n'): "",
    ("summary.json", "[]"): "summary.json is not a JSON object but []; make the run again",
    ("summary.json", "{}"): "summary.json: run is missing; give an object",
    ("summary.json", '{"run": 5}'): "summary.json: run is 5; give an object",
    ("provenance.json", "[]"): "provenance.json is not a JSON object but []",
    ("scores.jsonl", '{"a": 1}\n'): "scores.jsonl:1: id is missing; make the file again",
}


@pytest.fixture(scope="module")
def scored(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run, decoded and scored."""
    out = tmp_path_factory.mktemp("scored") / "runs"
    made = DECODE.replace("limit=1", "limit=2").replace("{t}/runs", str(out))
    assert command_of("decode")([a.format(w=world, t="") for a in made.split()]) == 0
    assert command_of("eval")([f"runs={out}", "metrics=[wer]", "workers=1", "grammar=words"]) == 0
    return out


@pytest.fixture
def broken(request: pytest.FixtureRequest, scored: Path, tmp_path: Path) -> Path:
    """A copy of `scored` with a file of the run replaced: (name, content)."""
    file, content = request.param
    runs = shutil.copytree(scored, tmp_path / "runs")
    (run,) = runs.glob("spec*")
    (run / file).write_text(content, errors="surrogateescape")
    return runs


@pytest.mark.usefixtures("_limited")
@pytest.mark.parametrize(("broken", "said"), RUNS.items(), indirect=["broken"])
def test_a_broken_run_is_not_scored(
    broken: Path, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = everything(broken)
    assert command_of("eval")([f"runs={broken}", "metrics=[wer]", "workers=1"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert said in line
    assert everything(broken) == before


@pytest.mark.usefixtures("_limited", "blank_figures")
@pytest.mark.parametrize(("broken", "said"), REPORTED.items(), indirect=["broken"])
def test_a_broken_run_is_left_out_of_reports(
    broken: Path, tmp_path: Path, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """One emptied file once ended sst-report, which left half of its tables behind."""
    out = tmp_path / "out"
    code = command_of("report")([f"runs={broken}", f"out={out}", "page=false", "paper=ssd"])
    told = capfd.readouterr().err
    assert code in (0, 2)
    assert "Traceback" not in told
    assert said in told
    assert (code == 0) == out.exists()


@pytest.mark.usefixtures("_limited")
@pytest.mark.parametrize("name", ["object", "text_unknown", "prompt_empty", "prompt_torn"])
def test_a_rejected_list_leaves_no_run_to_be_scored(
    world: Path, scored: Path, tmp_path: Path, name: str
) -> None:
    """An empty run was left behind, which sst-eval found without any utterance: exit code 1."""
    runs = shutil.copytree(scored, tmp_path / "runs")
    before = everything(runs)
    asked = DECODE.replace("{t}/runs", str(runs)).format(w=world)
    assert command_of("decode")([*asked.split(), f"data.path={world}/bad_{name}.jsonl"]) == 2
    assert everything(runs) == before
    assert command_of("eval")([f"runs={runs}", "metrics=[wer]", "workers=1"]) == 0


@pytest.mark.usefixtures("_limited")
def test_takes_too_few_for_the_codec_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`sst-prepare n_takes=3` ended in a traceback of the clustering library."""
    few = ["n_takes=3", "n_fine_takes=0", "workers=1", f"out={tmp_path}"]
    assert command_of("prepare")(few) == 2
    told = capfd.readouterr().err
    assert "tokens of speech are too few for n_codes=2048; give fewer codes or more takes" in told
    assert "Traceback" not in told


@pytest.mark.usefixtures("_limited", "blank_figures")
def test_an_emptied_clip_is_made_again_and_reports_go_on(
    world: Path, scored: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It killed sst-report, and sst-decode said of its run `done already`."""
    runs = shutil.copytree(scored, tmp_path / "runs")
    clip = min(runs.glob("*/audio/*.wav"))
    whole = clip.read_bytes()
    clip.write_bytes(b"")
    assert command_of("report")([f"runs={runs}", f"out={tmp_path / 'out'}"]) == 0
    made = DECODE.replace("limit=1", "limit=2").replace("{t}/runs", str(runs))
    assert command_of("decode")([a.format(w=world, t="") for a in made.split()]) == 0
    assert clip.read_bytes() == whole
