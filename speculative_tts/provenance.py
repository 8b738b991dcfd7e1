"""Record where a number comes from: command line, configuration, code, libraries, hardware.

The signature of a run, which names its folder, is computed here too.
"""

import dataclasses
import functools
import os
import platform
import re
import subprocess
import sys
import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from speculative_tts import assets
from speculative_tts.files import file_hash, files_hash, text_hash
from speculative_tts.records import read_jsonl
from speculative_tts.schema.common import CheckpointConfig, TransitionsConfig
from speculative_tts.schema.fields import Aside, said
from speculative_tts.typed import json_text

ROOT = Path(__file__).parent
BESIDE = (
    "../configs",
    "../speculative_tts_benchmarks",
    "../speculative_tts_makers",
)  # what else of the repository makes results
LIBRARIES = (
    "accelerate",
    "faiss-cpu",
    "hydra-core",
    "jiwer",
    "numpy",
    "onnxruntime",
    "pocketsphinx",
    "pyworld",
    "resemblyzer",
    "scipy",
    "soundfile",
    "soxr",
    "speechmos",
    "torch",
    "transformers",
)
AUDIO = ("prompt_audio", "reference_audio")  # keys of a list's row
# Keys that count beside a path's content: the layout of a checkpoint's prompt, a drafter's format,
# the smoothing of counted transitions.
COUNTED = ("rows", "instruction", "dtype", "smoothing", "strength")
CONTENT = (
    *("*.json", "*.safetensors", "*.npz", "*.npy", "*.onnx", "*.pt", "*.yaml"),
    *("*.jinja", "vocab.txt", "merges.txt", "CosyVoice-BlankEN/*.json", "CosyVoice-BlankEN/*.txt"),
)
PICKLED = "pytorch_model.bin"  # weights of a folder without others, such as SNAC's


def provenance(config: Any) -> dict[str, Any]:
    """Describe how this process makes a result, as a JSON object."""
    device = getattr(getattr(config, "runtime", config), "device", None)
    on_gpu = getattr(config, "gpu", False) or str(getattr(device, "name", device)) == "cuda"
    return {
        "argv": command_line(),
        "config": plain(config),
        "seed": getattr(config, "seed", None),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code_version(),
        "python": platform.python_version(),
        "libraries": library_versions(),
        "hardware": hardware(on_gpu=on_gpu),
    }


def command_line() -> list[str]:
    """Return the command line: the program without its folder, and its arguments."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def plain(config: Any, *, identity: bool = False) -> Any:
    """Convert a configuration to JSON values: enums by name, shipped paths as `tiny:target`.

    For the `identity` of a result settings are left out as their types say (`fields.Aside`).
    """
    again = functools.partial(plain, identity=identity)
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        hints = typing.get_type_hints(type(config), include_extras=True) if identity else {}
        values = {entry.name: getattr(config, entry.name) for entry in dataclasses.fields(config)}
        return {
            name: again(value)
            for name, value in values.items()
            if not (mark := said(hints.get(name), Aside)) or not mark.leaves_out(value)
        }
    if isinstance(config, Enum):
        return config.name
    if isinstance(config, dict):
        return {str(key): again(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [again(value) for value in config]
    return assets.named(str(config)) if isinstance(config, str | Path) else config


def signature(settings: Mapping[str, Any]) -> str:
    """Return eight hex digits, equal exactly when two runs should give the same records.

    `settings` are JSON values. A checkpoint, codec or list counts by its content, not by name and
    path: a retrained model, an edited list or another recording in it makes another run, a moved
    one does not. Limit, threads and warm-up count, because records hold times. Raise ValueError for
    a path that does not exist.
    """
    text = json_text(_by_content(dict(settings)), sort_keys=True)
    return text_hash(text)[:8]


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file, or of a folder's configuration and weight files.

    A list (.jsonl) includes the recordings that its rows name. Raise ValueError for no such path.
    """
    assets.require(path)
    if path.suffix == ".jsonl":
        files = [path, *_recordings(path)]
        hashes = [_file_hash(*_identity(file)) for file in files if file.is_file()]
        return text_hash(" ".join(hashes))
    if path.is_file():
        return _file_hash(*_identity(path))
    patterns = CONTENT if any(path.glob("*.safetensors")) else (*CONTENT, PICKLED)
    files = sorted({file for pattern in patterns for file in path.glob(pattern)})
    named = ((file.relative_to(path), _file_hash(*_identity(file))) for file in files)
    text = "".join(f"{name} {hash_}\n" for name, hash_ in named)
    return text_hash(text)


def _recordings(path: Path) -> list[Path]:
    """Return the audio files of a list, in order, each once."""
    named = (row.get(key) for row in read_jsonl(path) for key in AUDIO)
    return [path.parent / name for name in dict.fromkeys(named) if name]


def code_version() -> dict[str, Any]:
    """Return the package version, and commit and dirty flag if it runs from its git checkout."""
    try:
        code: dict[str, Any] = {"version": version("speculative_tts")}
    except PackageNotFoundError:
        code = {"version": None}
    # Ask whether the repository tracks this file: an installed package may lie inside another one.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is not None:
        code["commit"] = (_git("rev-parse", "HEAD") or "").strip()
        code["dirty"] = bool(_git("status", "--porcelain", "--", ".", *BESIDE))
    return code


@functools.cache
def source_hash(*parts: str) -> str:
    """Return the SHA-256 over the package's own code in these folders."""
    kinds = {".py", ".cpp", ".h"}
    files = [file for part in parts for file in (ROOT / part).rglob("*") if file.suffix in kinds]
    return files_hash(sorted(files))


def code_text(code: Mapping[str, Any]) -> str:
    """Format a `code_version` for people; empty when nothing is known."""
    version, commit = code.get("version"), str(code.get("commit") or "")[:9]
    parts = [f"version {version}" if version else "", f"commit {commit}" if commit else ""]
    text = " ".join(part for part in parts if part)
    return f"{text} with local changes" if text and code.get("dirty") else text


def library_versions() -> dict[str, str]:
    """Return the versions of the installed libraries that can change a number."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def hardware(*, on_gpu: bool = False) -> dict[str, Any]:
    """Return processor, kernels, cores, threads, memory and GPUs; None where unknown.

    Kernels are those of a CPU, which naming them compiles: None of what runs on a GPU.
    """
    torch = sys.modules.get("torch")  # only looked up: a command that needs it has imported it
    cuda = torch is not None and torch.cuda.is_available()
    native = sys.modules.get("speculative_tts.native.library")
    return {
        "cpu": cpu_name(Path("/proc/cpuinfo")),
        "kernels": native.kernel_name() if native and not on_gpu else None,
        "cores": _cores(),
        "threads": torch.get_num_threads() if torch else None,
        "memory_gib": _memory_gib(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        if torch and cuda
        else [],
    }


def peak_gib() -> float:
    """Return the largest memory that this process has held so far, in GiB.

    On Linux `ru_maxrss` would also count the process that started this one.
    """
    if (held := _of_linux("self/status", "VmHWM")) is not None:
        return held
    import resource  # not on every system

    unit = 1 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def free_gib() -> float | None:
    """Return the memory available to programs, in GiB; None unless on Linux."""
    return _of_linux("meminfo", "MemAvailable")


def _of_linux(file: str, entry: str) -> float | None:
    """Return an entry of a file under /proc, in GiB."""
    path = Path("/proc", file)
    if not path.is_file():
        return None
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines())
    return int(lines[entry].split()[0]) / 2**20


def _by_content(values: Any) -> Any:
    """Replace every mapping with a `path` by the hash of the content there.

    Keys of `COUNTED` are added where they differ from the default.
    """
    if isinstance(values, list):
        return [_by_content(value) for value in values]
    if not isinstance(values, dict):
        return values
    if isinstance(values.get("path"), str):
        content = content_hash(assets.resolve(values["path"]))
        usual = plain(TransitionsConfig()) | plain(CheckpointConfig())
        more = {k: values[k] for k in COUNTED if k in values and values[k] != usual.get(k)}
        return [content, more] if more else content
    return {key: _by_content(value) for key, value in values.items()}


def _identity(path: Path) -> tuple[str, int, int]:
    state = path.stat()
    return str(path.resolve()), state.st_size, state.st_mtime_ns


@functools.cache
def _file_hash(path: str, _size: int, _modified: int) -> str:
    """Return the SHA-256 of a file; size and time of change are parts of the cache's key."""
    return file_hash(Path(path))


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def cpu_name(info: Path) -> str | None:
    """Return a processor's name, family and model: some virtual machines name the maker only."""
    first = info.read_text().partition("\n\n")[0] if info.is_file() else ""
    facts = dict(re.findall(r"^([^\t:]+)\s*: (.+)$", first, re.MULTILINE))
    if "model name" not in facts:
        return platform.processor() or None
    numbers = [f"{key.split()[-1]} {facts[key]}" for key in ("cpu family", "model") if key in facts]
    return ", ".join(filter(None, [facts["model name"], " ".join(numbers)]))


def _cores() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None
