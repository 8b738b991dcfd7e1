"""What a user sees: one line and exit code 2 for a mistake, run's own code otherwise, no litter."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hydra import compose
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher

from speculative_tts.assets import resolve
from speculative_tts.codecs import world
from speculative_tts.commands import app, check, choices, listen, messages, speak
from speculative_tts.commands.arguments import sources
from speculative_tts.files import write_atomic
from speculative_tts.provenance import command_line, plain
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.schema.decode import DecodeConfig
from speculative_tts.schema.evaluate import CheckConfig, EvalConfig, ReportConfig
from speculative_tts.schema.fields import key_types, verbatim_keys
from speculative_tts.schema.listen import ListenConfig
from speculative_tts.schema.prepare import ImportConfig, PrecomputeConfig, PrepareConfig
from speculative_tts.schema.speak import SpeakConfig
from speculative_tts.schema.train import TrainDraftConfig, TrainHeadsConfig, TrainTargetConfig

seen: list[DecodeConfig] = []


def run(config: DecodeConfig) -> int:
    """Stands for decoding; `seed` chooses what happens."""
    seen.append(config)
    if config.seed == 3:
        Path("/nowhere/weights").read_bytes()
    if config.seed == 4:
        app.require_writable(config.out)
    if config.seed == 5:
        raise RuntimeError("a defect")
    if config.seed == 6:
        int("six")
    if config.seed == 7:
        raise ModuleNotFoundError("No module named 'pyworld'", name="pyworld")
    return config.seed if config.seed > 9 else 0


decode = app.command(
    "decode", DecodeConfig, run, examples=("sst-decode limit=5",), implied=choices.LOGS_BESIDE_RUNS
)


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SST_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "100")  # a terminal's width would wrap help elsewhere


@pytest.mark.parametrize(
    ("argument", "parts"),
    [
        ("rule.betta=3", ["unknown key rule.betta", "did you mean rule.beta?"]),
        ("+lookahed=3", ["unknown key lookahed", "did you mean lookahead?"]),
        ("+rule.betta=3", ["unknown key rule.betta", "did you mean rule.beta?"]),
        ("~rule", ["rule.name is not set; give rule.name=<value>"]),
        ("out=???", ["out is not set; give out=<value>"]),
        ("zzz=3", ["unknown key zzz", "--help"]),
        ("limit=three", ["limit=three", "Integer"]),
        ("limit=1.5", ["limit=1.5", "Integer"]),
        ("system=foo", ["system=foo", "target, draft, speculative", "codec, reference"]),
        ("rule.name=foo", ["rule.name=foo", "exact, tolerance, group"]),
        ("rule=foo", ["rule=foo", "no such choice; there are ", " exact, group, ", "--config-dir"]),
        ("experiment=ssd/foo", ["experiment=ssd/foo", "ssd/table1"]),
        ("rule.beta=", ["rule.beta="]),
        ("foo", ["cannot read 'foo'", "key=value"]),
        ("rule=[", ["cannot read 'rule=['", "key=value"]),
        ("--foo", ["--foo", "key=value", "--help"]),
        ("--config-dir=/nowhere", ["/nowhere", "not found"]),
        ("target.path=???", ["target.path is not set", "target.path=<value>"]),
        ("seed=3", ["/nowhere/weights: no such file or directory"]),
        ("seed=6", ["'six'", "SST_DEBUG=1"]),
        ("seed=7", ["pyworld", "speculative_tts[tiny]"]),
    ],
)
def test_mistake_is_one_line_and_code_2(
    argument: str, parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert decode([argument]) == app.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sst-decode: error: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err


def test_a_key_that_is_deleted_has_its_schemas_default() -> None:
    assert decode.compose(["~lookahead"]).lookahead == DecodeConfig().lookahead
    with pytest.raises(ValueError, match=r"^text is not set; give text=<value>"):
        speak.main.compose(["text=hello", "~text"])


def test_unwritable_output_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert decode(["seed=4", "out=file/runs"]) == app.BAD_INPUT
    err = capsys.readouterr().err
    assert err == (
        "sst-decode: error: output folder file/runs is not writable (not a directory); "
        "choose another with out=<path>\n"
    )


def test_unwritable_output_folder_of_a_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert decode(["seed=4", "lookahead=2,3", "out=file/runs"]) == app.BAD_INPUT
    errors = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(errors) == 2
    assert all("file/runs is not writable" in line for line in errors)


def test_a_sweep_leaves_nothing_beside_its_runs(tmp_path: Path) -> None:
    """Hydra's `.sweep` lay there, also of a sweep that was refused."""
    assert decode(["seed=1,x", "out=runs"]) == app.BAD_INPUT
    assert decode(["seed=1,2", "out=runs"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_is_looked_at_and_not_made(tmp_path: Path) -> None:
    """A mistake found later left an empty folder behind."""
    assert app.require_writable(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert list(tmp_path.iterdir()) == []


def test_a_defect_keeps_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode(["seed=5"]) == 1
    assert "RuntimeError: a defect" in capsys.readouterr().err


def test_debug_shows_the_traceback_of_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SST_DEBUG", "1")
    assert decode(["seed=3"]) == app.BAD_INPUT
    assert "Traceback" in capsys.readouterr().err


def test_exit_code_of_run_is_passed_on_and_nothing_is_written(tmp_path: Path) -> None:
    assert decode(["seed=12"]) == 12
    assert decode(["seed=1"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_sweep_runs_every_job_and_returns_the_largest_code() -> None:
    assert decode(["seed=3,12,1"]) == 12
    assert [config.seed for config in seen] == [3, 12, 1]


@pytest.mark.parametrize("seeds", [[12, 12], [12, 1, 12], [12, 12, 12, 1]])
def test_a_point_that_is_named_again_runs_again(seeds: list[int]) -> None:
    assert decode([f"seed={','.join(map(str, seeds))}"]) == 12
    assert [config.seed for config in seen] == seeds


def test_a_point_of_a_sweep_is_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All before the first one runs: a mistake in the last is told at once."""
    composed: list[str] = []

    def noted(name: str, overrides: list[str], **given: Any) -> Any:
        composed.extend(one for one in overrides if one.startswith("seed="))
        return compose(name, overrides, **given)

    monkeypatch.setattr("hydra.compose", noted)
    assert decode(["seed=20,21,22"]) == 22
    assert [composed.count(f"seed={seed}") for seed in (20, 21, 22)] == [1, 1, 1]
    assert decode(["seed=23"]) == 23
    assert composed.count("seed=23") == 1  # not once more to see whether it is a sweep
    before = len(seen)
    assert decode(["method=ssd,exact,nothing"]) == 2
    assert len(seen) == before


def test_experiment_sweeps_by_itself() -> None:
    assert decode(["experiment=ssd/table3", "limit=5"]) == 0
    assert [config.rule.beta for config in seen] == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert {config.rule.name for config in seen} == {"tolerance"}
    assert {config.limit for config in seen} == {5}


def test_all_points_are_composed_without_a_run() -> None:
    asked = ["experiment=ssd/table3", "seed=1,2"]
    made = decode.compose_sweep(asked)
    assert [(config.rule.beta, config.seed) for config in made[:3]] == [(0, 1), (0, 2), (0.1, 1)]
    assert len(made) == 10
    assert len(decode.compose_sweep([*asked, "hydra.mode=RUN"])) == 2
    assert seen == []
    with pytest.raises(ValueError, match="seed=x: Value 'x'"):
        decode.compose_sweep(["seed=1,x"])


def test_experiments_sweep_one_after_the_other() -> None:
    """Of several named together each ran once, at its defaults: Hydra reads the sweep of one."""
    typed: list[list[str]] = []

    def noting(config: DecodeConfig) -> int:
        typed.append(command_line())
        return run(config)

    main = app.command("decode", DecodeConfig, noting)
    assert main(["experiment=ssd/table3,ssd/groups", "limit=5"]) == 0
    assert [config.rule.name for config in seen] == ["tolerance"] * 5 + ["group"] * 4
    assert [config.rule.groups.mean_size for config in seen[5:]] == [4.5, 10, 40, 140]
    assert typed[5:] == [["sst-decode", "experiment=ssd/groups", "limit=5"]] * 4


def test_a_list_is_no_sweep_and_a_quoted_comma_neither() -> None:
    assert decode(["out='a,b'"]) == 0
    assert [config.out for config in seen] == ["a,b"]


def test_verbatim_text_needs_no_quotes_for_hydra() -> None:
    texts: list[str] = []

    def speak(config: SpeakConfig) -> int:
        texts.append(config.text)
        return 0

    main = app.command("speak", SpeakConfig, speak)
    said = [
        "one, two",
        "it's",
        "a=b [c",
        'say "hi"',
        "back\\slash",
        "${oops}",
        "'quoted, already'",
        "5",
    ]
    for text in said:
        assert main([f"text={text}"]) == 0, text
    assert texts == [*said[:6], "quoted, already", "5"]


PATHS = [  # as they stand in home folders; Hydra's grammar refused all but the last
    "josé/l.jsonl",
    "Results (v2)",
    "a=b",
    "it's",
    "one, two",
    "[x]{y}",
    "a: b",
    "ends\\",
    "50%",
    "1e5",
    "true",
    '"',
    "${oops}",
    "plain/x",
]


@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_taken_as_it_is_written(path: str) -> None:
    """They were answered with "settings are written key=value"."""
    assert decode([f"{key}={path}" for key in ("out", "data.path", "rule.groups.path")]) == 0
    config = seen[0]
    assert [config.out, config.data.path, config.rule.groups.path] == [path] * 3
    assert decode.compose([f"out={path}"]).out == path


def test_a_path_may_begin_at_home_be_null_and_be_swept_in_quotes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert decode(["data.path=~/x", "++out=~/it's", "heads.path=null"]) == 0
    assert seen[0].data.path == str(tmp_path / "x")
    assert seen[0].out == str(tmp_path / "it's")
    assert seen[0].heads.path is None
    assert decode(["out='a','b c'"]) == 0
    assert [config.out for config in seen[1:]] == ["a", "b c"]
    assert decode(["out="]) == app.BAD_INPUT
    assert "out is empty; give a path" in capsys.readouterr().err


def test_a_command_sees_real_places_and_files_tell_what_ships() -> None:
    """Commands looked for `tiny:` places by themselves; none protected them from being written."""
    assert decode(["heads.path=tiny:target_heads", "out=tiny:x"]) == 0
    (config,) = seen
    assert config.target.path == str(resolve("tiny:target"))
    assert config.heads.path == str(resolve("tiny:target_heads"))
    assert config.out == "tiny:x"  # nothing of ours
    written = plain(config)
    assert [written["target"]["path"], written["heads"]["path"]] == [
        "tiny:target",
        "tiny:target_heads",
    ]
    assert {Path(config.target.path), Path(config.data.path)} <= {*sources(config)}
    assert decode(["target.path=tiny:draft"]) == 0  # no heads of it ship, and none are asked for


SCHEMAS = [BenchConfig, CheckConfig, DecodeConfig, EvalConfig, ImportConfig, ListenConfig]
SCHEMAS += [PrecomputeConfig, PrepareConfig, ReportConfig, SpeakConfig]
SCHEMAS += [TrainDraftConfig, TrainHeadsConfig, TrainTargetConfig]
NO_PATHS = {"cache", "groups.source", "rule.groups.source", "rule.source"}  # enumerations
NO_PATHS |= {"drafter.codes", "recurrent.codes"}  # how many


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_key_that_names_a_path_says_so(schema: type[Any]) -> None:
    """A key that holds a path and does not say so would be read by Hydra's grammar."""
    named = re.compile(
        r"(^|\.)(path|out|cache|models|codes|runs|source|audio|init|golden|\w+_file)$"
    )
    found = {key for key in key_types(schema) if named.search(key)}
    enumerations = NO_PATHS if schema is not EvalConfig else set()
    assert found - enumerations <= verbatim_keys(schema)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_settings_may_stand_on_both_sides_of_a_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: int
) -> None:
    """Those on one side were "unrecognized arguments"; what stood after it failed every job."""
    (tmp_path / "a=b" / "target").mkdir(parents=True)
    (tmp_path / "a=b" / "target" / "big.yaml").write_text("name: big\npath: /models/big\n")
    settings = ["target=big", "lookahead=1,2"]
    for flag in (["--config-dir", "a=b"], ["--config-dir=a=b"], ["-cd", "a=b"]):
        seen.clear()
        assert decode([*settings[:place], *flag, *settings[place:]]) == 0
        assert {config.target.path for config in seen} == {"/models/big"}
        assert [config.lookahead for config in seen] == [1, 2]
        assert "job 2 of 2" in capsys.readouterr().err


def test_provenance_has_what_was_typed() -> None:
    typed: list[list[str]] = []

    def speak(config: SpeakConfig) -> int:
        typed.append(command_line())
        return 0

    main = app.command("speak", SpeakConfig, speak)
    assert main(["text=it's me", "out=a b.wav", "rule.beta=0.2,0.3"]) == 0
    assert typed == [["sst-speak", "text=it's me", "out=a b.wav", "rule.beta=0.2,0.3"]] * 2


def test_what_is_read_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """sst-train-draft out=<the target> replaced the target's weights; a list its own file."""

    def prepare(config: PrepareConfig) -> int:
        write_atomic(Path(config.out) / "list.jsonl", "")
        return 0

    main = app.command("prepare", PrepareConfig, prepare)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "list.jsonl").write_text("mine")
    assert main(["path=corpus", "out=./corpus"]) == app.BAD_INPUT
    assert "out=./corpus is what path reads; give another out" in capsys.readouterr().err
    assert main(["list_file=corpus/list.jsonl", "out=corpus"]) == app.BAD_INPUT
    assert "corpus/list.jsonl is read by this command; give another" in capsys.readouterr().err
    assert (tmp_path / "corpus" / "list.jsonl").read_text() == "mine"


def test_help_for_a_newcomer(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode(["--help"]) == 0
    out = capsys.readouterr().out
    for part in (
        "Usage: sst-decode",
        "sst-decode limit=5",
        "lookahead=3",
        "tokens drafted per round",  # a comment of the schema
        "dynamic, exact, group",
        "Keys: name, block, beta",
        "method=",
        "A method by its name",
        "ssd/table3",
        "--help=<group>",
        "--hydra-help",
        "--config-dir",
    ):
        assert part in out
    assert out.index("lookahead=") < out.index("method=") < out.index("target=tiny")
    assert out.count("\n") < 80
    assert "target.rows" not in out
    assert seen == []


def test_help_of_a_group_and_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode(["--help=rule"]) == 0
    out = capsys.readouterr().out
    assert "rule=tolerance" in out
    assert "SSD: accept when u < min(1, q/p) + beta" in out  # a comment of the file
    assert "rule.beta=0.0" in out
    assert "rule.groups.theta=null" in out
    assert decode(["--help=method"]) == 0
    assert "method=codec" in capsys.readouterr().out
    assert decode(["--help=all"]) == 0
    out = capsys.readouterr().out
    assert "target.rows.code" in out
    assert "utterances decoded before any clock starts" in out
    assert decode(["--help=rules"]) == app.BAD_INPUT
    assert "--help=rules: no such group; there are experiment, method" in capsys.readouterr().err
    assert seen == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode(["--version"]) == 0
    assert capsys.readouterr().out.startswith("sst-decode 0.")


def test_help_and_mistakes_do_not_import_torch() -> None:
    script = (
        "import sys; from speculative_tts.commands import app; "
        "from speculative_tts.schema.decode import DecodeConfig; "
        "main = app.command('decode', DecodeConfig, lambda config: 0); "
        "assert main(['--help']) == 0 and main(['zzz=1']) == 2; "
        "sys.exit('torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_failed_job_of_a_launcher_says_which_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job of another process came back as its exit code alone; its logs lay beside the runs."""
    (launcher,) = (one for one in Plugins.instance().discover(Launcher) if "Basic" in str(one))
    node = {"_target_": f"{launcher.__module__}.{launcher.__qualname__}"}
    ConfigStore.instance().store("another", group="hydra/launcher", node=node)
    assert decode(["seed=1,4", "lookahead=2,9", "hydra/launcher=another", "out=runs"]) == 0
    assert [(config.seed, config.lookahead) for config in seen] == [(1, 2), (1, 9), (4, 2), (4, 9)]
    out, err = capsys.readouterr()
    assert "all jobs are done; the launcher's folder has what they said" in out
    assert "job 4 of 4: seed=4 lookahead=9 " in err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [".sweep"]
    assert decode(["seed=3,1", "hydra/launcher=another"]) == app.BAD_INPUT
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("sst-decode: a job failed: seed=3")
    assert "No such file" in told


def test_what_a_closed_stream_would_hear_is_no_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """`2>&-` ended in a traceback of the progress bar."""

    def printing(config: DecodeConfig) -> int:
        assert sys.stderr is not None
        sys.stderr.write("told to nobody")
        return 0

    main = app.command("decode", DecodeConfig, printing)
    monkeypatch.setattr(sys, "stderr", None)
    assert main([]) == 0


def test_a_reader_that_leaves_ends_no_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`sst-report | head -1` ended at the line that nobody read any more, with exit code 1."""

    def printing(config: DecodeConfig) -> int:
        for _ in range(10_000):
            print("a line of a table")
        (tmp_path / "done").touch()
        return 0

    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert app.command("decode", DecodeConfig, printing)([]) == 0
        assert sys.stdout is unread
    assert (tmp_path / "done").exists()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("line", "offered", "hidden"),
    [
        ("sst-decode rule=", "rule=tolerance", "rule=tolerance_schema"),
        ("sst-decode targ", "target", "target_schema"),
    ],
)
def test_completion_offers_choices_and_no_schemas(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    line: str,
    offered: str,
    hidden: str,
) -> None:
    """Tab offered `rule=tolerance_schema`, which is no choice."""
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    assert decode(["-sc", "query=bash"]) == 0
    words = capfd.readouterr().out.split()
    assert any(word.startswith(offered) for word in words)
    assert hidden not in words


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("methd=ssd", "method"), ("experimnt=ssd/table3", "experiment"), ("taget=tiny", "target")],
)
def test_a_misspelt_group_is_recognised(
    capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    """`methd=ssd` was told to be a key of something else."""
    assert decode([typed]) == app.BAD_INPUT
    assert f"did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name: !!python/object/apply:os.system [true]\n", "write keys and values without tags"),
        (b"name: [\n", "is no plain YAML"),
        (b"name: \xff\xfe\n", "is not UTF-8"),
    ],
)
def test_own_configs_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    (tmp_path / "mine" / "target").mkdir(parents=True)
    (tmp_path / "mine" / "target" / "big.yaml").write_bytes(content)
    assert decode(["--config-dir", "mine", "target=big"]) == app.BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_launcher_without_its_cluster_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Slurm `hydra/launcher=submitit_slurm` ended in a traceback of submitit's."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert decode(["hydra/launcher=submitit_slurm", "seed=1,2"]) == app.BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert "hydra/launcher=submitit_local runs the jobs on this machine" in line


def test_a_launcher_that_is_not_installed_names_its_extra(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert decode(["hydra/launcher=joblib", "seed=1,2"]) == app.BAD_INPUT
    assert "pip install 'speculative_tts[cluster]'" in capsys.readouterr().err


def test_a_sweep_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of how many jobs, whatever is swept in an experiment's file and anew by the user."""
    ticks = iter([10.0, 10.0, 100.0, 310.0, 320.0, 330.0])
    monkeypatch.setattr(app, "monotonic", lambda: next(ticks))
    assert decode(["experiment=ssd/table3", "limit=2"]) == 0
    told = [line.partition(": rule.beta=")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == [
        "sst-decode: job 1 of 5",
        "sst-decode: job 2 of 5, about 6 min left",
        "sst-decode: job 3 of 5, about 8 min left",
        "sst-decode: job 4 of 5, about 3 min left",
        "sst-decode: job 5 of 5, about 80 s left",
    ]
    monkeypatch.undo()
    assert decode(["experiment=ssd/table3", "rule.beta=0.5", "seed=1,2"]) == 0
    assert "job 2 of 2" in capsys.readouterr().err
    assert [config.rule.beta for config in seen[5:]] == [0.5, 0.5]


def test_a_glob_finds_the_names_of_choices() -> None:
    """It ended in `ConfigLoader is not set`."""
    assert decode(["rule=glob(to*)"]) == 0
    assert [config.rule.name for config in seen] == ["tolerance", "top"]


@pytest.mark.parametrize(("terminal", "name"), [(False, "xterm"), (True, "dumb"), (True, "xterm")])
def test_progress_is_plain_lines_in_a_log(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    terminal: bool,
    name: str,
) -> None:
    """Bars of carriage returns filled logs of sweeps."""
    from speculative_tts import progress

    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("TERM", name)
    monkeypatch.setattr(progress, "EVERY", 1e-9)
    assert list(progress.progress(range(3), desc="work")) == [0, 1, 2]
    said = capsys.readouterr().err
    if terminal and name == "xterm":
        assert "\r" in said
    else:
        assert "\r" not in said
        assert said.splitlines()[-1].startswith("work: 3/3 in 00:00")


def test_a_package_that_lacks_something_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ImportError of our own, with the remedy, came as a traceback."""
    monkeypatch.setitem(sys.modules, "pyworld", None)
    world.load_pyworld.cache_clear()
    with pytest.raises(ImportError) as caught:
        world.load_pyworld()
    told = messages.one_line(caught.value, DecodeConfig)
    assert told is not None
    assert "pip install 'speculative_tts[tiny]'" in told


def test_a_check_of_nothing_names_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    """`sst-check` alone asked for target.name, and said nothing of folder, judges and paper."""
    assert check.main([]) == app.BAD_INPUT
    said = capsys.readouterr().err
    assert "sst-check folder=<checkpoint>, sst-check judges or sst-check paper" in said


def test_a_listening_test_has_the_key_out_too() -> None:
    """`sst-listen out=x` was told to mean `port`."""
    assert listen.main.compose(["make", "out=x"]).folder == "x"
