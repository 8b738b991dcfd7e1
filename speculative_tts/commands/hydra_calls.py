"""Hydra as commands call it: from arguments that are given, composing no more than it has to."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# How what may bring a sweep of its own begins on a command line.
MAY_SWEEP = ("experiment=", "hydra", "+", "-c", "--config")


@contextmanager
def typed_as(argv: list[str]) -> Iterator[None]:
    """Hydra reads sys.argv, and raises errors instead of printing them if HYDRA_FULL_ERROR is 1."""
    arguments, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = argv, "1"
    try:
        yield
    finally:
        sys.argv = arguments
        if full_error is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full_error


@contextmanager
def composed_once(argv: Sequence[str]) -> Iterator[None]:
    """Inside, Hydra composes each point of a sweep once: what it checks first is what it runs.

    It composes all points before the first one runs, so that a mistake in one is told at once, and
    each again when its turn comes, a sixth of a second each time. Before that it composes to see
    whether a file asks for a sweep, which an experiment may, a user's own file, and nothing else.
    """
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.hydra import Hydra
    from omegaconf import OmegaConf

    compose, checked = ConfigLoaderImpl.load_sweep_config, dict[tuple[str, ...], Any]()
    mode, asks = Hydra.get_mode, any(word.startswith(MAY_SWEEP) for word in argv)

    def once(self: Any, master_config: Any, sweep_overrides: list[str]) -> Any:
        point = tuple(sweep_overrides)
        found = checked.pop(point, None)
        if found is None or OmegaConf.is_readonly(found.hydra):  # Hydra locks what it has run
            found = checked[point] = compose(self, master_config, sweep_overrides)
        return found

    ConfigLoaderImpl.load_sweep_config = once  # type: ignore[method-assign]
    if not asks:
        Hydra.get_mode = lambda *_, **__: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = mode  # type: ignore[method-assign]
        ConfigLoaderImpl.load_sweep_config = compose  # type: ignore[method-assign]
