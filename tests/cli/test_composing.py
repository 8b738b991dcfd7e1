"""What is composed from kept choices is what Hydra composes of the whole command line."""

import importlib
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf

from speculative_tts.commands import composing

LINES = [
    "decode",
    "decode limit=2 seed=7",
    "decode limit=2 limit=3",
    "decode method=ssd rule.beta=0.2",
    "decode rule.beta=0.2 method=ssd target=tiny_fine",
    "decode rule=group rule.groups.cap=9 target.path=/t",
    "decode experiment=pcg/figure2 lookahead=2 out=there",
    "decode heads.path=${out}/heads out=x",
    "decode limit=null workers=2",
    "decode rule=tolerance rule.beta=0.2 rule={name:tolerance,beta:0.3}",
    "decode rule.beta=0.2 rule=tolerance +hydra.job.env_set.A=b",
    "decode +limit=3",
    "decode limit=2 hydra.sweep.dir=${out}/.sweep hydra/launcher=basic",
    "eval metrics=[wer] runs=x",
    "eval judges=whisper",
    "speak text=alpha",
    "train_draft recipe=ssd seed=3",
]
REFUSED = [
    "decode out=null",
    "decode ~limit",
    "decode limit=many",
    "decode nothing=1",
    "decode rule=exact rule.beta=0.2",
    "decode rule=none limit=2",
    "decode limit=1,2",
    "decode limit=[",
    "decode new=1 +new=2",
]


def composed(line: str, *, kept: bool) -> DictConfig:
    """Compose a command line after others of the same choices, or by Hydra alone."""
    name, *overrides = line.split()
    main = importlib.import_module(f"speculative_tts.commands.{name}").main
    composing.register(main.name, main.schema)
    if kept:
        return composing.compose_one(name, overrides)
    with initialize_config_module(composing.CONFIGS, version_base="1.3"):
        return compose(name, overrides, return_hydra_config=True)


def own(config: DictConfig) -> dict[Any, Any]:
    """What is composed but Hydra's own node, with interpolations as they are written."""
    everything: Any = OmegaConf.to_container(config)
    return {key: value for key, value in everything.items() if key != "hydra"}


@pytest.mark.parametrize("line", LINES)
def test_values_are_set_as_hydra_sets_them(line: str) -> None:
    wanted = composed(line, kept=False)
    for _ in range(2):
        config = composed(line, kept=True)
        assert own(config) == own(wanted)
        assert config.hydra.runtime.choices == wanted.hydra.runtime.choices
        OmegaConf.update(config, "seed", 12345, force_add=True)  # the next one's own


@pytest.mark.parametrize("line", REFUSED)
def test_errors_are_hydras(line: str) -> None:
    composed("decode", kept=True)
    errors = []
    for kept in (True, False):
        with pytest.raises(Exception) as error:  # noqa: PT011 - whichever Hydra raises
            composed(line, kept=kept)
        errors.append((type(error.value), str(error.value), str(error.value.__cause__)))
    assert errors[0] == errors[1]
