"""Commands that people copy compose: those of docs/paper-scale.md, own-model.md, remedies."""

import importlib
import re
import shlex
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

from speculative_tts.commands import decode, precompute, train_heads
from speculative_tts.commands.app import Command
from speculative_tts.preflight.needs import needs

pytestmark = pytest.mark.whole

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/paper-scale.md").read_text()
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
LOOP = re.compile(r"for one in ([^;]*); do (.*?); done")
COMMAND = re.compile(r"^(?:\S*/)?(sst-[a-z-]+ .*)$")
TORCHRUN = re.compile(r"torchrun .*-m speculative_tts\.commands\.train_(draft|heads)")


def code(text: str) -> list[str]:
    """Lines of indented blocks, continued ones joined, and code spans."""
    joined = re.sub(r"\\\n\s*", "", text)
    blocks = [line.strip() for line in joined.splitlines() if line.startswith("    ")]
    return blocks + re.findall(r"`((?:[^` ]*/)?sst-[^`]* [^`]*)`", joined)


def commands(lines: list[str]) -> list[str]:
    """The sst-commands among lines of shell: loops written out, places filled in."""
    found = []
    for line in lines:
        bare = TORCHRUN.sub(r"sst-train-\1", line.partition("  #")[0].rstrip())
        bare = re.sub(r"<[^>]*>", "x", bare)
        loop = LOOP.search(bare)
        each = [loop[2].replace("$one", one) for one in loop[1].split()] if loop else [bare]
        found += [match[1] for one in each if (match := COMMAND.search(one)) and "..." not in one]
    return found


@cache
def compose(line: str) -> tuple[str, list[object]]:
    """The program of a command, and its configuration at each point of the sweep that is typed."""
    program, *options = shlex.split(line.removesuffix("&"))
    module, _, name = SCRIPTS[program].partition(":")
    main = getattr(importlib.import_module(module), name)
    assert isinstance(main, Command)
    return program, main.compose_sweep([*options, "hydra.mode=RUN"])  # experiments' own: elsewhere


IN_GUIDE = commands(code(GUIDE))
IN_OWN = commands(code((ROOT / "docs/own-model.md").read_text()))
IN_REMEDIES = [
    command
    for wanted in needs(Path("models")).values()
    for top in wanted
    for need in (top, *top.made_of)
    for command in commands([need.command])
]


@pytest.mark.parametrize("line", dict.fromkeys([*IN_GUIDE, *IN_OWN, *IN_REMEDIES]))
def test_command_composes(line: str) -> None:
    _, configs = compose(line)
    assert configs


ELSEWHERE = Path("else where/models")
WITH_MODELS = [
    command
    for wanted in needs(ELSEWHERE).values()
    for top in wanted
    for need in (top, *top.made_of, *(one for made in top.made_of for one in made.made_of))
    for command in commands([need.command])
]


@pytest.mark.parametrize("line", dict.fromkeys(WITH_MODELS))
def test_a_printed_command_runs_as_printed_with_any_models(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They had read targets and codecs below models/, wherever MODELS was, and no audio=.

    And a folder with a space in its name was two words of the shell.
    """
    program, *options = shlex.split(line)
    module, _, name = SCRIPTS[program].partition(":")
    main = getattr(importlib.import_module(module), name)
    assert main([*options, "--cfg", "job"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    read = {key: shown[key]["path"] for key in ("target", "codec") if shown.get(key)}
    if program in ("sst-train-draft", "sst-train-heads"):
        read.pop("codec", None)  # not read there
    if program in ("sst-train-heads", "sst-import-valle"):
        read |= {key: shown[key] for key in ("out", "target_out") if shown.get(key)}
    if shown.get("corpus") == "list":
        read.pop("codec", None)
    if shown.get("cache") == "transitions":
        read.pop("target", None)
    assert all(Path(path).is_relative_to(ELSEWHERE) for path in read.values()), read
    if shown.get("corpus") == "libriheavy":
        assert shown["audio"] == "data/Libriheavy"


def test_nothing_is_passed_over() -> None:
    """Every program that the guide names with settings is among the extracted lines."""
    named = set(re.findall(r"sst-[a-z]+(?:-[a-z]+)*(?= [a-z]+=)", GUIDE))
    assert named <= {line.split()[0] for line in IN_GUIDE}
    assert len(IN_GUIDE) > 35
    assert len(IN_REMEDIES) >= 14
    assert any("recipe=llasa_8b_subset" in line for line in IN_GUIDE)  # by torchrun


def test_a_wrong_line_is_found() -> None:
    with pytest.raises(Exception, match="no_such"):
        compose("sst-decode no_such=1")
    with pytest.raises(Exception, match="paper_table9"):
        compose("sst-decode experiment=ssd/paper_table9")


@pytest.mark.parametrize("lines", [IN_GUIDE, IN_REMEDIES], ids=["guide", "remedies"])
def test_what_is_made_is_what_the_runs_read(lines: list[str]) -> None:
    """Heads, transitions, drafts, lists and codes have one place each."""
    made = {
        (program, place)
        for line in lines
        if not line.startswith(("sst-check", "sst-speak", "sst-eval", "sst-report", "sst-decode"))
        for program, configs in [compose(line)]
        for config in configs
        for place in (getattr(config, key, None) for key in ("export", "out", "target_out"))
        if place
    }
    for target in ("valle", "uslm"):
        read = decode.main.compose([f"target={target}", "codec=speechtokenizer"])
        assert (train_heads.main.program, read.heads.path) in made
        assert (precompute.main.program, read.viterbi.transitions.path) in made
        assert (train_heads.main.program, read.target.path) in made
        assert (
            "sst-import-valle",
            train_heads.main.compose([f"recipe={target}_heads"]).target.path,
        ) in made
    for draft in ("cosyvoice2", "llasa_8b_subset"):
        assert ("sst-train-draft", decode.main.compose([f"draft={draft}"]).draft.path) in made
    for data in ("unicats_b", "test_clean_500", "test_clean"):
        place = str(Path(decode.main.compose([f"data={data}"]).data.path).parent)
        assert ("sst-prepare", place) in made


@pytest.mark.parametrize("lines", [IN_GUIDE, IN_REMEDIES], ids=["guide", "remedies"])
def test_trainings_read_what_is_prepared(lines: list[str]) -> None:
    prepared = {config.out for config in configs_of("sst-prepare", lines)}
    for program in ("sst-train-draft", "sst-train-heads"):
        for config in configs_of(program, lines):
            assert str(Path(config.codes).parent) in prepared
    for config in configs_of("sst-precompute", lines):
        if config.export:
            assert str(Path(config.transitions.codes).parent) in prepared


def configs_of(program: str, lines: list[str] = IN_GUIDE) -> list[object]:
    """All configurations of a program's lines."""
    own = [line for line in lines if line.split()[0] == program]
    return [config for line in own for config in compose(line)[1]]


def test_downloads_take_one_pattern_at_a_time() -> None:
    """hf takes one value per --exclude or --include, and would ask for a second as a file."""
    assert not re.search(r"--(?:ex|in)clude '[^']*' '", GUIDE)
    assert "CosyVoice-BlankEN/model.safetensors" not in GUIDE  # the official classes open it


def test_judges_are_found_where_they_are_put() -> None:
    scored = configs_of("sst-eval")
    assert len(scored) >= 3
    for config in scored:
        assert config.judges.models == "models/judges"
