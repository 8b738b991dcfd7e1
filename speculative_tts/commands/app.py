"""What every command shares: configuration in, one clear line for a mistake, an exit code out.

A command module ends with `main = app.command("decode", DecodeConfig, run, examples=(...))`, its
console entry. Hydra composes the packaged YAML with the command line; `run` receives the schema's
dataclass. Exit codes: what `run` returns (the largest of a sweep), 2 for bad input, 130 after
Ctrl-C. Nothing here imports torch, so `--help` and mistakes answer at once.
"""

import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from speculative_tts.commands import messages
from speculative_tts.commands.arguments import (
    apart,
    check_words,
    find_places,
    name_key,
    one_by_one,
    quoted,
    sources,
)
from speculative_tts.commands.choices import Choices, implied
from speculative_tts.commands.hydra_calls import composed_once, typed_as
from speculative_tts.commands.sweeps import has_sweep, place
from speculative_tts.files import check_folder, reading
from speculative_tts.schema.common import Device
from speculative_tts.schema.kinds import asked_for, kinds_in
from speculative_tts.schema.limits import check

Config = TypeVar("Config")
CONFIGS = "pkg://speculative_tts.configs"
BAD_INPUT = 2
INTERRUPTED = 130
CLUSTER = (("cluster", "cluster.name"),)


class JobFailedError(Exception):
    """A job in another process ended with an exit code other than 0, and why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(code, why)  # args must rebuild the exception when it is unpickled
        self.code, self.why = code, why


@dataclass(frozen=True)
class Command(Generic[Config]):
    """A console command: call it with arguments (default: the process's) to get the exit code."""

    name: str
    schema: type[Config]
    run: Callable[[Config], int]
    about: str
    examples: tuple[str, ...]
    shorthand: tuple[tuple[str, str], ...] = ()
    implied: Choices = ()
    first: tuple[str, ...] = ()
    codes: list[int] = field(default_factory=list, repr=False, compare=False)
    typed: list[str] = field(default_factory=list, repr=False, compare=False)
    asked: list[str] = field(default_factory=list, repr=False, compare=False)  # settings alone

    @property
    def program(self) -> str:
        """The name that a user types."""
        return "sst-" + self.name.replace("_", "-")

    @property
    def words(self) -> list[str]:
        """Those that stand for a whole setting, as `make` of sst-listen."""
        return [word for word, meant in self.shorthand if "=" in meant]

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Parse, compose, check, run; never raises for a user's mistake (unless SST_DEBUG=1)."""
        self.codes.clear()
        asked = sys.argv[1:] if argv is None else argv
        for name in ("stdout", "stderr"):  # closed by the shell (2>&-): said to nobody
            if getattr(sys, name) is None:
                setattr(sys, name, io.StringIO())
        try:
            self._start(asked)
        except JobFailedError as failed:
            print(f"{self.program}: a job failed: {failed.why}", file=sys.stderr)
            self.codes.append(failed.code)
        except KeyboardInterrupt:
            print(f"{self.program}: interrupted", file=sys.stderr)
            self.codes.append(INTERRUPTED)
        except BrokenPipeError:  # `sst-decode --help | head`
            self.codes.append(_unread())
        except SystemExit as stop:  # Hydra leaves this way after --hydra-help, --cfg and the like
            self.codes.append(
                stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            )
        except Exception as error:  # noqa: BLE001 - sorted into user mistakes and defects below
            self.codes.append(self._report(error))
        return max(self.codes, default=0)

    def compose(self, overrides: Sequence[str] = ()) -> Config:
        """The configuration object of these overrides; runs nothing (for tests and notebooks).

        ValueError for a mistake in them, with the line that the command would say.
        """
        from hydra import compose, initialize_config_module

        self._register()
        written = [self._written_out(override) for override in overrides]
        written += self._implied(written)
        try:
            with initialize_config_module("speculative_tts.configs", version_base="1.3"):
                return self._to_object(compose(self.name, overrides=written))
        except Exception as error:
            if (line := messages.one_line(error, self.schema)) is None:
                raise
            raise ValueError(line) from error

    def _start(self, asked: Sequence[str]) -> None:
        for argv in one_by_one(asked):
            self.typed[:] = argv
            self._one(argv)

    def _one(self, argv: list[str]) -> None:
        from hydra._internal.utils import get_args_parser

        if "--version" in argv:
            print(f"{self.program} {version('speculative_tts')}")
            return
        topic = next((a.partition("=")[2] for a in argv if a.startswith("--help=")), "")
        parser = get_args_parser()
        parser.error = _usage_error  # type: ignore[method-assign]
        argv = [a.partition("=")[0] if a.startswith("--help=") else a for a in argv]
        flags, settings = apart(argv, parser)
        check_words(settings, self.words)
        self.asked[:] = map(self._written_out, settings)
        argv = [*flags, *self.asked]
        arguments = parser.parse_args(argv)
        argv += self._implied(arguments.overrides)
        self._register()
        if arguments.help:
            from speculative_tts.commands.help import help_text

            print(help_text(self, topic))
        else:
            self._hydra(argv, arguments)

    def _register(self) -> None:
        from hydra.core.config_store import ConfigStore

        store = ConfigStore.instance().store
        store(f"{self.name}_schema", node=self.schema)
        for group, known in kinds_in(self.schema).items():
            for name, kind in known.items():
                store(f"{name}_schema", group=group, node=kind)

    def _hydra(self, argv: list[str], arguments: Any) -> None:
        """Hand over to Hydra; a sweep among the overrides implies --multirun."""
        import hydra

        from speculative_tts.commands import ray_launcher

        ray_launcher.register()
        chosen = (
            arguments.run,
            arguments.multirun,
            arguments.cfg,
            arguments.info,
            arguments.hydra_help,
        )
        if not any(chosen) and has_sweep(arguments.overrides):
            argv = ["--multirun", *argv]
        logging.basicConfig(format="%(message)s", stream=sys.stderr)
        logging.getLogger("speculative_tts").setLevel(logging.INFO)
        main = hydra.main(version_base="1.3", config_path=CONFIGS, config_name=self.name)(
            self._job()
        )
        with typed_as([self.program, *argv]), composed_once(argv):
            main()
        if "--multirun" in argv and not self.codes:  # a launcher's jobs have processes of their own
            print(f"{self.program}: all jobs are done; the launcher's folder has what they said")

    def _job(self) -> Callable[[Any], None]:
        """What Hydra runs once, or once per point of a sweep, perhaps in another process."""
        return partial(_run_job, self, os.getpid())

    def _to_object(self, config: Any) -> Config:
        """A composed DictConfig as the schema's dataclass; ValueError for one missing or beyond."""
        from omegaconf import OmegaConf

        plain, chosen = OmegaConf.structured(self.schema), kinds_in(self.schema)
        for group in chosen:
            plain[group] = OmegaConf.structured(OmegaConf.get_type(config, group))
        # Merged again because Hydra lets +unknown=1 pass.
        checked = OmegaConf.merge(plain, OmegaConf.to_container(config, resolve=False))
        for key in sorted(OmegaConf.missing_keys(checked)):
            words = [
                word for word in self.words if dict(self.shorthand)[word].startswith(f"{key}=")
            ]
            give = f"one of {', '.join(words)}" if words else f"{key}=<value>"
            raise ValueError(f"{key} is not set; give {give} (see {self.program} --help)")
        result = OmegaConf.to_object(checked)
        assert isinstance(result, self.schema)
        check(result)
        find_places(result)
        return result

    def _written_out(self, argument: str) -> str:
        """A setting as Hydra reads it: `shorthand` in full, paths and words quoted.

        A group's name alone it would take for a choice of that group.
        """
        key, equals, value = argument.partition("=")
        return quoted(f"{dict(self.shorthand).get(key, key)}{equals}{value}", self.schema)

    def _implied(self, overrides: Sequence[str]) -> list[str]:
        return implied(overrides, (*asked_for(self.schema), *self.implied))

    def _report(self, error: Exception) -> int:
        """A line on stderr for a mistake (2); a traceback for a defect (1) or with SST_DEBUG=1."""
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
    """The console command `sst-<name>` around `run`.

    The docstring of `run`'s module is its description. `configs/<name>.yaml` holds its defaults and
    names `<name>_schema` first. `shorthand` gives a short key the place of a longer one:
    (("target", "target.name"),). `implied` says which choice a key, or another choice, means when
    none is made: (("target=tiny_valle", "codec=tiny_residual"),). A key of
    `schema.kinds.IMPLIED` asks for its kind by itself. `first` are the keys that `--help` begins
    with.
    """
    about = (sys.modules[run.__module__].__doc__ or "").strip()
    return Command(name, schema, run, about, examples, shorthand, implied, first)


def job_number() -> int | None:
    """Which point of a sweep this is, from 0; None where there is no sweep."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    job = HydraConfig.get().job
    return None if OmegaConf.is_missing(job, "num") else int(job.num)


def require_writable(path: str | Path, key: str = "out") -> Path:
    """The folder; ValueError when it cannot be made, or nothing be written in it. Makes nothing."""
    folder = Path(path)
    try:
        check_folder(folder)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(
            f"output folder {folder} is not writable ({reason}); choose another with {key}=<path>"
        ) from error
    return folder


def require_device(device: Device, key: str = "device") -> None:
    """ValueError for a GPU that torch cannot see: work would silently be done elsewhere."""
    import torch

    if device is Device.cuda and not torch.cuda.is_available():
        raise ValueError(f"{key}=cuda needs a GPU that torch can see; use {key}=cpu")


def require_codes(path: str) -> Path:
    """The folder of training codes; ValueError when it is not there."""
    if not Path(path).is_dir():
        raise ValueError(
            f"no folder {path} of codes; run sst-prepare first, or give codes=<folder>"
        )
    return Path(path)


def _run_job(this: Command[Any], parent: int, config: Any) -> None:
    """One job: its failures are told at once, so that the other jobs of a sweep still run."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    job = HydraConfig.get()
    if job.mode == RunMode.MULTIRUN:
        where, what = place(job, this.asked), " ".join(job.overrides.task)
        print(f"{this.program}: {where}: {what}", file=sys.stderr)
    composed = None
    try:
        composed = this._to_object(config)
        code, why = _checked(this, composed), "see its log"
    except BrokenPipeError:
        code, why = _unread(), "nobody reads what it prints"
    except Exception as error:  # noqa: BLE001 - sorted into user mistakes and defects by _report
        name_key(error, composed)
        code, why = this._report(error), str(error)
    this.codes.append(code)
    if (
        code and os.getpid() != parent
    ):  # a launcher's process: codes are not shared, an exception travels back
        raise JobFailedError(code, f"{' '.join(job.overrides.task)}: {why}")


def _unread() -> int:
    """The exit code when nobody reads what is printed, which is no bad input; the rest is lost."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _checked(this: Command[Config], config: Config) -> int:
    """Run; what is read is not written meanwhile, and provenance sees what was typed."""
    if getattr(config, "wandb", False):
        import wandb  # noqa: F401 - told now, not after an hour, if it is not installed
    arguments = sys.argv
    sys.argv = [this.program, *this.typed]
    try:
        with reading(sources(config)):
            return this.run(config)
    finally:
        sys.argv = arguments


def _usage_error(message: str) -> NoReturn:
    raise ValueError(f"{message}; settings are written key=value, and --help lists them")
