"""Every shipped YAML composes into its command's schema, and means what its name says."""

import importlib
import json
import re
import shlex
import tomllib
from dataclasses import is_dataclass
from enum import EnumType
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hydra import compose, initialize_config_module
from hydra.core.override_parser.overrides_parser import OverridesParser

from speculative_tts.commands.app import Command
from speculative_tts.commands.help import comments, options
from speculative_tts.provenance import plain
from speculative_tts.runs.naming import run_name
from speculative_tts.schema.decode import DecodeConfig, System

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SPEAKS_FOR_ITSELF = {"steps", "learning_rate", "weight_decay", "seed"}
GROUPS = {"target", "draft", "codec", "data", "drafter", "rule", "sampling", "runtime"} | {
    "method",
    "experiment",
}
OTHERS = {
    "recipe": "sst-train-draft",
    "family": "sst-train-target",
    "judges": "sst-eval",
    "corpus": "sst-prepare",
}


def command(program: str) -> Command[Any]:
    module, _, name = PROJECT["scripts"][program].partition(":")
    loaded = getattr(importlib.import_module(module), name)
    assert isinstance(loaded, Command)
    return loaded


@pytest.mark.parametrize("program", sorted(PROJECT["scripts"]))
def test_command_composes_and_explains_itself(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main = command(program)
    assert main.program == program
    required = {
        "speak": ["text=alpha"],
        "check": ["target=valle", "golden=here"],
        "listen": ["what=make"],
    }.get(main.name, [])
    assert isinstance(main.compose(required), main.schema)
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert len(out.partition("\n")[0]) > len(program) + 20
    assert len(main.examples) >= 2
    assert all(example in out for example in main.examples)


@pytest.mark.parametrize("program", sorted(PROJECT["scripts"]))
def test_every_yaml_names_its_schema_first(program: str) -> None:
    name = program.removeprefix("sst-").replace("-", "_")
    lines = (ROOT / "configs" / f"{name}.yaml").read_text().splitlines()
    assert lines[:2] == ["defaults:", f"  - {name}_schema"]


def test_no_config_is_forgotten() -> None:
    folders = {path.name for path in (ROOT / "configs").iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == GROUPS | OTHERS.keys()
    commands = {name.removeprefix("sst-").replace("-", "_") for name in PROJECT["scripts"]}
    assert set(options("")) >= commands


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(f"{group}={name}", marks=[pytest.mark.whole] * (group == "experiment"))
        for group in sorted(GROUPS | OTHERS.keys())
        for name in options(group)
    ],
)
def test_option_composes_and_its_sweep_too(choice: str) -> None:
    program = OTHERS.get(choice.partition("=")[0], "sst-decode")
    trains_heads = choice.startswith("recipe=") and choice.endswith(("_heads", "=recurrent"))
    main = command("sst-train-heads" if trains_heads else program)
    if not choice.startswith("experiment="):
        assert all(isinstance(one, main.schema) for one in main.compose_sweep([choice]))
        return
    assert isinstance(main.compose([choice]), main.schema)
    with initialize_config_module("speculative_tts.configs", version_base="1.3"):
        hydra = compose(main.name, overrides=[choice], return_hydra_config=True).hydra
    grid = [f"{key}={values}" for key, values in (hydra.sweeper.params or {}).items()]
    axes = []
    for axis in OverridesParser.create().parse_overrides(grid):
        # A lone value stands in a grid where a method of the grid has another.
        values = axis.sweep_string_iterator() if axis.is_sweep_override() else [axis.value()]
        axes.append([f"{axis.get_key_element()}={value}" for value in values])
    for at in range(max(map(len, axes), default=0)):  # every value once, of all axes together
        assert main.compose([choice, *(axis[at % len(axis)] for axis in axes)])
    assert (str(hydra.mode) == "RunMode.MULTIRUN") == bool(grid)


@pytest.mark.parametrize(
    ("method", "system", "rule", "beta"),
    [
        ("target", System.target, "exact", 0.0),
        ("draft", System.draft, "exact", 0.0),
        ("exact", System.speculative, "exact", 0.0),
        ("ssd", System.speculative, "tolerance", 0.4),
        ("pcg", System.speculative, "group", 0.0),
        ("mtp", System.multi_token, "exact", 0.0),
        ("uncached", System.uncached, "exact", 0.0),
        ("uncached_heads", System.uncached_heads, "exact", 0.0),
        ("codec", System.codec, "exact", 0.0),
        ("reference", System.reference, "exact", 0.0),
    ],
)
def test_methods(method: str, system: System, rule: str, beta: float) -> None:
    config = command("sst-decode").compose([f"method={method}"])
    assert (config.system, config.rule.name) == (system, rule)
    assert getattr(config.rule, "beta", 0.0) == beta


def test_own_values_win_over_a_methods() -> None:
    main = command("sst-decode")
    assert main.compose(["method=ssd", "rule.beta=0.2"]).rule.beta == 0.2
    assert main.compose(["method=ssd", "rule=exact"]).rule.name == "exact"


@pytest.mark.parametrize(
    ("overrides", "rule", "beta"),
    [
        (["rule.beta=0"], "tolerance", 0.0),
        (["rule.groups.theta=0.5"], "group", 0.0),
        (["experiment=pcg/figure2", "rule.groups.cap=9"], "group", 0.0),
        (["lookahead=2"], "exact", 0.0),
    ],
)
def test_a_rules_own_setting_asks_for_the_rule(
    overrides: list[str], rule: str, beta: float
) -> None:
    found = command("sst-decode").compose(overrides).rule
    assert (found.name, getattr(found, "beta", 0.0)) == (rule, beta)


@pytest.mark.parametrize("program", sorted(PROJECT["scripts"]))
def test_the_runs_of_an_examples_sweep_differ(program: str) -> None:
    """`sst-decode rule.beta=0,0.2,0.4` once made one exact run and skipped it twice."""
    main = command(program)
    for example in main.examples:
        first, *arguments = shlex.split(example, comments=True)
        if first != program:  # torchrun
            continue
        runs = [
            run_name(config) if isinstance(config, DecodeConfig) else plain(config)
            for config in main.compose_sweep(arguments)
        ]
        assert len({json.dumps(run) for run in runs}) == len(runs), example


@pytest.mark.parametrize("program", sorted(PROJECT["scripts"]))
def test_help_has_a_meaning_for_every_key(program: str) -> None:
    schema = command(program).schema
    types = get_type_hints(schema)
    silent = {key for key, meaning in comments(schema).items() if not meaning}
    unclear = {
        key
        for key in silent
        if not is_dataclass(types[key]) and not isinstance(types[key], EnumType)
    }
    assert unclear <= SPEAKS_FOR_ITSELF


@pytest.mark.parametrize("topic", ["", "all"])
@pytest.mark.parametrize("program", sorted(PROJECT["scripts"]))
def test_help_lists_options_where_there_are_some(
    program: str, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(program)([f"--help={topic}"]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    meanings = " ".join(line.strip() for line in lines)
    assert not re.search(r"[Oo]ne of:(?= \w+(\.\w+)*=)", meanings)
    table = lines[next(i for i, line in enumerate(lines) if "eys, with their defaults:" in line) :]
    assert max(map(len, (line for line in table if "  " in line.strip()))) <= 100


@pytest.mark.parametrize("program", sorted(PROJECT["scripts"]))
def test_help_of_many_keys_begins_with_ten_that_matter(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = command(program)
    own = [key for key, kind in get_type_hints(asked.schema).items() if not is_dataclass(kind)]
    if len(own) > 10:
        assert asked(["--help"]) == 0
        text = capsys.readouterr().out
        first = text.partition("\nFirst:\n")[2].partition("\n\nOther keys")[0]
        keys = re.findall(r"^  ([\w.]+)[=.]", first, re.MULTILINE)
        assert tuple(keys) == asked.first
        assert len(set(keys)) == 10
    else:
        assert len(asked.first) in {0, 10}


def test_recipes_take_the_commands_keys() -> None:
    recipes = [("speculative_tts_makers.corpora.tiny", "TinyCorpusRecipe", "sst-prepare")]
    recipes += [("speculative_tts_makers.training.target", "TargetRecipe", "sst-train-target")]
    for module, name, program in recipes:
        config = command(program).compose(["seed=7", "out=there"])
        recipe = getattr(importlib.import_module(module), name)(**vars(config))
        assert (recipe.seed, recipe.out) == (7, "there")
