"""The configurations that the files of configs/experiment make, a point each."""

from copy import deepcopy
from functools import cache
from itertools import product
from typing import Any

from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf

from speculative_tts.commands.decode import main
from speculative_tts.commands.help import options
from speculative_tts.reporting.experiments import PAPERS_OWN, Scale, read


def names(paper: str, scale: Scale) -> list[str]:
    """Experiments of a paper at a scale."""
    own = [name for name in options("experiment") if name.startswith(f"{paper}/")]
    return [name for name in own if ("/paper_" in name) == (scale is PAPERS_OWN)]


def points(experiment: str) -> list[Any]:
    """Return the configuration of each point of an experiment's grid, the caller's to change."""
    return deepcopy(_points(experiment))


@cache
def _points(experiment: str) -> list[Any]:
    """Composing takes 0.2 s, so only choices of files are composed, once; values are set."""
    _register()
    grid = read(experiment).grid
    axes = [[(key, value) for value in values] for key, values in grid.items()]
    files, values = ([a for a in axes if (a[0][0] == "method") is one] for one in (True, False))
    found = []
    for choice in product(*files):
        config = composed([f"experiment={experiment}", *(f"{k}={v}" for k, v in choice)])
        for settings in product(*values):
            for key, value in settings:
                OmegaConf.update(config, key, value)
            found.append(OmegaConf.to_container(config, resolve=True, enum_to_str=True))
    return found


@cache
def _register() -> None:
    """Let Hydra know the schema of sst-decode."""
    main.compose()


def composed(overrides: list[str]) -> DictConfig:
    """What Hydra makes of overrides of sst-decode."""
    with initialize_config_module("speculative_tts.configs", version_base="1.3"):
        return compose(main.name, overrides=overrides)
