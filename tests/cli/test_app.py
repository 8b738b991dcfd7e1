"""What a user sees: one line and exit code 2 for a mistake, run's own code otherwise, no litter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from stub_decode import decode, seen

from speculative_tts.codecs import world
from speculative_tts.commands import app, check, listen, messages, speak
from speculative_tts.schema.decode import DecodeConfig

pytestmark = pytest.mark.usefixtures("stub_decode")


@pytest.mark.parametrize(
    ("argument", "parts"),
    [
        ("rule.betta=3", ["unknown key rule.betta", "did you mean rule.beta?"]),
        ("+lookahed=3", ["unknown key lookahed", "did you mean lookahead?"]),
        ("+rule.betta=3", ["unknown key rule.betta", "did you mean rule.beta?"]),
        ("~rule", ["rule.name is not set; give rule.name=<value>"]),
        ("out=???", ["out is not set; give out=<value>"]),
        ("zzz=3", ["unknown key zzz", "--help"]),
        ("limit=three", ["limit=three: limit takes a whole number, or null"]),
        ("limit=1.5", ["limit=1.5: limit takes a whole number, or null"]),
        ("out=null", ["out=null: out takes a value, not null"]),
        ("rule={a:1}", ["rule takes the name of a choice, one of ", " exact, group, "]),
        ("methd=ssd", ["did you mean method?"]),
        ("experimnt=ssd/table3", ["did you mean experiment?"]),
        ("taget=tiny", ["did you mean target?"]),
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
