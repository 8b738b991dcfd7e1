"""Run a command: compose its configuration, say a mistake in one line, return an exit code.

A command module ends with `main = app.command("decode", DecodeConfig, run, examples=(...))`, its
console entry. Hydra composes the packaged YAML with the command line; `run` receives the schema's
dataclass. Exit codes: what `run` returns (the largest of a sweep), 2 for bad input, 130 after
Ctrl-C. Nothing here imports torch, so `--help` and mistakes answer at once.
"""

import io
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from speculative_tts.commands import arguments, messages
from speculative_tts.commands.choices import Choices, implied
from speculative_tts.commands.composing import (
    CONFIGS,
    Composed,
    Config,
    Described,
    SweepPoint,
    compose_one,
    compose_points,
    name_key,
    register,
    sources,
    to_object,
    typed_as,
)
from speculative_tts.commands.help import help_text
from speculative_tts.commands.stdout import reader_may_leave
from speculative_tts.files import check_folder, reading
from speculative_tts.schema.common import Device
from speculative_tts.schema.kinds import asked_for

if TYPE_CHECKING:
    from omegaconf import DictConfig

BAD_INPUT = 2
INTERRUPTED = 130
CLUSTER = (("cluster", "cluster.name"),)
_number: ContextVar[int | None] = ContextVar("number of the sweep's point that runs", default=None)


class JobFailedError(Exception):
    """A job of a launcher, in another process, ended with an exit code other than 0."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(code, why)  # args must rebuild the exception when it is unpickled
        self.code, self.why = code, why


@dataclass(frozen=True)
class Command(Described[Config]):
    """A console command: call it with arguments (default: the process's) to get the exit code."""

    run: Callable[[Config], int]
    implied: Choices = ()
    check: Callable[[Config], object] | None = None

    @property
    def words(self) -> list[str]:
        """Bare words accepted instead of key=value, such as `make` of sst-listen."""
        return [word for word, meant in self.shorthand if "=" in meant]

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Parse, compose, check, run; never raises for a user's mistake (unless SST_DEBUG=1)."""
        for name in ("stdout", "stderr"):  # closed by the shell (2>&-)
            if getattr(sys, name) is None:
                setattr(sys, name, io.StringIO())
        with reader_may_leave():
            return self._answer(sys.argv[1:] if argv is None else argv)

    def _answer(self, argv: Sequence[str]) -> int:
        """Run the command lines in `argv`; return the largest exit code, or that of a mistake."""
        try:
            code = max(self._one(line) for line in arguments.one_by_one(argv))
            sys.stdout.flush()  # an error of it is told now, not when Python ends
            return code
        except JobFailedError as failed:
            print(f"{self.program}: a job failed: {failed.why}", file=sys.stderr)
            return failed.code
        except KeyboardInterrupt:
            print(f"{self.program}: interrupted", file=sys.stderr)
            return INTERRUPTED
        except SystemExit as stop:  # Hydra leaves this way after --hydra-help
            return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except Exception as error:  # noqa: BLE001 - sorted into user mistakes and defects below
            return self._report(error)

    def compose(self, overrides: Sequence[str] = ()) -> Config:
        """Return the configuration object of these overrides; run nothing (tests, notebooks).

        Raises ValueError for a mistake in them, with the line that the command would say.
        """
        with self._told():
            return to_object(compose_one(self.name, self._settings(overrides)), self)

    def compose_sweep(self, overrides: Sequence[str]) -> list[Config]:
        """Return the configuration object of every point that a command line asks for.

        Raises ValueError as `compose` does.
        """
        with self._told():
            composed = compose_points(self.name, self._settings(overrides))
            return [to_object(point.config, self) for point in composed.points]

    def run_point(self, typed: Sequence[str], point: SweepPoint) -> tuple[int, str]:
        """Run a composed configuration; return the exit code and why it is not 0.

        A failure is told at once, so that a sweep goes on. `typed` goes into provenance.
        """
        composed = None
        try:
            composed = to_object(point.config, self)
            if getattr(composed, "wandb", False):
                import wandb  # noqa: F401 - told now, not after an hour, if it is not installed
            with typed_as([self.program, *typed]), reading(sources(composed)):
                return self.run(composed), "see its log"
        except Exception as error:  # noqa: BLE001 - sorted into user mistakes and defects by _report
            name_key(error, composed)
            return self._report(error), str(error)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise mistakes as ValueErrors with the command's line."""
        register(self.name, self.schema)
        try:
            yield
        except Exception as error:
            if (line := messages.one_line(error, self.schema)) is None:
                raise
            raise ValueError(line) from error

    def _one(self, argv: Sequence[str]) -> int:
        given = arguments.parse(argv)
        arguments.check_words(given.settings, self.words)
        settings = self._settings(given.settings)
        register(self.name, self.schema)
        if given.version:
            print(f"{self.program} {version('speculative_tts')}")
        elif given.help is not None:
            print(help_text(self, given.help))
        elif given.flags:
            self._by_hydra([*given.flags, *given.folder, *settings], lambda _: None)
        else:
            logging.basicConfig(format="%(message)s", stream=sys.stderr)
            logging.getLogger("speculative_tts").setLevel(logging.INFO)
            composed = compose_points(self.name, settings, given.config_dir, sweep=given.multirun)
            return max(self._codes(argv, composed, [*given.folder, *settings]))
        return 0

    def _codes(
        self, typed: Sequence[str], composed: Composed, settings: Sequence[str]
    ) -> Iterable[int]:
        """Run what was composed, a sweep by its launcher; yield exit codes."""
        work = partial(_sweep_point, self, typed, len(composed.points))
        if not composed.is_sweep:
            yield self.run_point(typed, composed.points[0])[0]
            return
        self._check_all(composed)
        if composed.launcher == "basic":
            began = monotonic()
            for point in composed.points:
                yield work(point, monotonic() - began)[0]
        elif composed.launcher == "ray":
            from speculative_tts.commands.ray_launcher import run_points

            for point, code, why in run_points(work, composed):
                if code:
                    print(f"{self.program}: a job failed: {point}: {why}", file=sys.stderr)
                yield code
        else:
            self._by_hydra(["--multirun", *settings], partial(_launched, work))
            print(f"{self.program}: all jobs are done; the launcher's folder has what they said")
            yield 0

    def _check_all(self, composed: Composed) -> None:
        """Raise ValueError for a mistake in any point of a sweep, before the first one runs.

        What `check` looks at may be elsewhere where a launcher runs the points.
        """
        for point in composed.points:
            config = to_object(point.config, self)
            if self.check is not None and composed.launcher == "basic":
                try:
                    self.check(config)
                except ValueError as error:
                    name_key(error, config)
                    raise

    def _by_hydra(self, argv: Sequence[str], task: Callable[["DictConfig"], None]) -> None:
        """Leave it to Hydra's own main: what only prints, and launchers such as submitit."""
        import hydra

        main = hydra.main(version_base="1.3", config_path=f"pkg://{CONFIGS}", config_name=self.name)
        completing = any(one.startswith("query=") for one in argv)
        with typed_as([self.program, *argv]), _without_schemas() if completing else nullcontext():
            main(task)()

    def _settings(self, overrides: Sequence[str]) -> list[str]:
        """Write settings out for Hydra, with `shorthand` in full and paths and words quoted.

        Adds the choices that they imply.
        """
        short, written = dict(self.shorthand), []
        for key, equals, value in (override.partition("=") for override in overrides):
            setting = f"{short.get(key, key)}{equals}{value}"
            written.append(arguments.quoted(setting, self.schema))
        return written + implied(written, (*asked_for(self.schema), *self.implied))

    def _report(self, error: Exception) -> int:
        """Print a line for a mistake (2); a traceback for a defect (1) or with SST_DEBUG=1."""
        line = messages.one_line(error, self.schema)
        if line is None or os.environ.get("SST_DEBUG") == "1":
            traceback.print_exception(error)
        if line is None:
            return 1
        print(f"{self.program}: error: {line}", file=sys.stderr)
        return BAD_INPUT


def command(
    name: str,
    schema: type[Config],
    run: Callable[[Config], int],
    *,
    examples: tuple[str, ...] = (),
    shorthand: tuple[tuple[str, str], ...] = (),
    implied: Choices = (),
    first: tuple[str, ...] = (),
) -> Command[Config]:
    """Make the console command `sst-<name>` around `run`.

    The docstring of `run`'s module is its description; a function `check` of that module raises
    ValueError for what no point of a sweep may have. `configs/<name>.yaml` holds its defaults and
    names `<name>_schema` first. `shorthand` gives a short key the place of a longer one:
    (("target", "target.name"),). `implied` says which choice a key, or another choice, means when
    none is made: (("target=tiny_valle", "codec=tiny_residual"),). A key of
    `schema.kinds.IMPLIED` asks for its kind by itself. `first` are the keys that `--help` begins
    with.
    """
    module = sys.modules[run.__module__]
    about, check = (module.__doc__ or "").strip(), getattr(module, "check", None)
    return Command(name, schema, about, examples, first, shorthand, run, implied, check)


@contextmanager
def _without_schemas() -> Iterator[None]:
    """Print what the block prints without the names of schemas, which are no choices."""
    with redirect_stdout(io.StringIO()) as offered:
        yield
    print(re.sub(r"\S*_schema\b ?", "", offered.getvalue()), end="")


def job_number() -> int | None:
    """Return the number, from 0, of the sweep's point that runs; None outside a sweep."""
    return _number.get()


def require_writable(path: str | Path, key: str = "out") -> Path:
    """Return the folder, without making it; ValueError if it cannot be made or written in."""
    folder = Path(path)
    try:
        check_folder(folder)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(
            f"output folder {folder} is not writable ({reason}); choose another with {key}=<path>"
        ) from error
    return folder


def require_device(device: Device) -> None:
    """Raise ValueError for a GPU that torch cannot see, instead of working silently elsewhere."""
    import torch

    if device is Device.cuda and not torch.cuda.is_available():
        raise ValueError("device=cuda needs a GPU that torch can see; use device=cpu")


def require_codes(path: str) -> Path:
    """Return the folder of training codes; ValueError if it does not exist."""
    if not Path(path).is_dir():
        raise ValueError(
            f"no folder {path} of codes; run sst-prepare first, or give codes=<folder>"
        )
    return Path(path)


def _sweep_point(
    this: Command[Any], typed: Sequence[str], jobs: int, point: SweepPoint, seconds: float = 0.0
) -> tuple[int, str]:
    """Say where the sweep is, and about how long it will take after `seconds`; run the point."""
    place = f"job {point.number + 1} of {jobs}"
    if point.number and seconds:
        left = seconds / point.number * (jobs - point.number)
        place += f", about {left:.0f} s left" if left < 90 else f", about {left / 60:.0f} min left"
    print(f"{this.program}: {place}: {point}", file=sys.stderr)
    number = _number.set(point.number)
    try:
        return this.run_point(typed, point)
    finally:
        _number.reset(number)


def _launched(work: Callable[[SweepPoint], tuple[int, str]], config: "DictConfig") -> None:
    """Run a launcher's job, in its process; the exception travels back, exit codes do not."""
    from hydra.core.hydra_config import HydraConfig

    job = HydraConfig.get()
    point = SweepPoint(int(job.job.num), tuple(job.overrides.task), config)
    code, why = work(point)
    if code:
        raise JobFailedError(code, f"{point}: {why}")
