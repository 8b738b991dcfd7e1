"""Paths and words are taken as they are typed, and what is read is never written."""

import re
from pathlib import Path
from typing import Any

import pytest
from stub_decode import decode, seen

from speculative_tts.assets import resolve
from speculative_tts.commands import app
from speculative_tts.commands.composing import sources
from speculative_tts.files import write_atomic
from speculative_tts.provenance import command_line, plain
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.schema.decode import DecodeConfig
from speculative_tts.schema.evaluate import CheckConfig, EvalConfig, ReportConfig
from speculative_tts.schema.fields import is_verbatim, key_types
from speculative_tts.schema.listen import ListenConfig
from speculative_tts.schema.prepare import ImportConfig, PrecomputeConfig, PrepareConfig
from speculative_tts.schema.speak import SpeakConfig
from speculative_tts.schema.train import TrainDraftConfig, TrainHeadsConfig, TrainTargetConfig

pytestmark = pytest.mark.usefixtures("stub_decode")


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
    assert {key for key in found - enumerations if not is_verbatim(key, schema)} == set()


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
