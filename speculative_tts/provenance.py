"""Where a number comes from: command line, configuration, code, libraries and hardware.

And the signature of a run, which names its folder.
"""

import dataclasses
import functools
import json
import os
import platform
import re
import subprocess
import sys
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

ROOT = Path(__file__).parent
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
AUDIO = ("prompt_audio", "reference_audio")  # of a row of a list
# Keys beside a path that count too: how a checkpoint's prompt is written, a drafter's format, what
# becomes of counted transitions.
COUNTED = ("rows", "instruction", "dtype", "smoothing", "strength")
CONTENT = (
    *("*.json", "*.safetensors", "*.npz", "*.npy", "*.onnx", "*.pt", "*.yaml"),
    *("*.jinja", "vocab.txt", "merges.txt", "CosyVoice-BlankEN/*.json", "CosyVoice-BlankEN/*.txt"),
)


def provenance(config: Any) -> dict[str, Any]:
    """How a result is made, as a JSON object; call it in the process that makes it."""
    return {
        "argv": command_line(),
        "config": plain(config),
        "seed": getattr(config, "seed", None),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code_version(),
        "python": platform.python_version(),
        "libraries": library_versions(),
        "hardware": hardware(),
    }


def command_line() -> list[str]:
    """What was typed: the program without its folder, and its arguments."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def plain(config: Any) -> Any:
    """A configuration as JSON values; enums by name, paths as text, what ships as `tiny:target`."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {
            entry.name: plain(getattr(config, entry.name)) for entry in dataclasses.fields(config)
        }
    if isinstance(config, Enum):
        return config.name
    if isinstance(config, dict):
        return {str(key): plain(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [plain(value) for value in config]
    return assets.named(str(config)) if isinstance(config, str | Path) else config


def signature(settings: Mapping[str, Any]) -> str:
    """Eight hex digits that are equal exactly when two runs should give the same records.

    `settings` are JSON values. Of a checkpoint, codec or list its content counts, not its name and
    path: a retrained model, an edited list or another recording in it makes another run, a moved
    one does not. Limit, threads and warm-up count: records hold times. ValueError when a path
    leads nowhere.
    """
    text = json.dumps(_by_content(dict(settings)), sort_keys=True)
    return text_hash(text)[:8]


def content_hash(path: Path) -> str:
    """SHA-256 of a file, or of the configuration and weight files in a checkpoint folder.

    Of a list (.jsonl) the recordings that its rows name count too. ValueError where nothing is.
    """
    assets.require(path)
    if path.suffix == ".jsonl":
        files = [path, *_recordings(path)]
        hashes = [_file_hash(*_identity(file)) for file in files if file.is_file()]
        return text_hash(" ".join(hashes))
    if path.is_file():
        return _file_hash(*_identity(path))
    files = sorted({file for pattern in CONTENT for file in path.glob(pattern)})
    named = ((file.relative_to(path), _file_hash(*_identity(file))) for file in files)
    text = "".join(f"{name} {hash_}\n" for name, hash_ in named)
    return text_hash(text)


def _recordings(path: Path) -> list[Path]:
    """Audio files of a list, in order; each once."""
    named = (row.get(key) for row in read_jsonl(path) for key in AUDIO)
    return [path.parent / name for name in dict.fromkeys(named) if name]


def code_version() -> dict[str, Any]:
    """Package version, and commit and dirty flag when the package runs from its git checkout."""
    try:
        found: dict[str, Any] = {"version": version("speculative_tts")}
    except PackageNotFoundError:
        found = {"version": None}
    # Tracked by the surrounding repository? An installed package may lie inside someone else's.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is not None:
        found["commit"] = (_git("rev-parse", "HEAD") or "").strip()
        found["dirty"] = bool(_git("status", "--porcelain", "--", ".", "../configs"))
    return found


@functools.cache
def source_hash(*parts: str) -> str:
    """SHA-256 over the package's own code in these folders."""
    kinds = {".py", ".cpp", ".h"}
    files = [file for part in parts for file in (ROOT / part).rglob("*") if file.suffix in kinds]
    return files_hash(sorted(files))


def code_text(code: Mapping[str, Any]) -> str:
    """A `code_version` for people; empty when it says nothing."""
    version, commit = code.get("version"), str(code.get("commit") or "")[:9]
    parts = [f"version {version}" if version else "", f"commit {commit}" if commit else ""]
    text = " ".join(part for part in parts if part)
    return f"{text} with local changes" if text and code.get("dirty") else text


def library_versions() -> dict[str, str]:
    """Versions of the installed libraries that can change a number."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, Any]:
    """Processor, what computes on it, cores and threads, memory, GPUs; None where unknown."""
    torch = sys.modules.get("torch")  # only looked up: a command that needs it has imported it
    cuda = torch is not None and torch.cuda.is_available()
    native = sys.modules.get("speculative_tts.native.library")
    return {
        "cpu": cpu_name(Path("/proc/cpuinfo")),
        "kernels": native.kernel_name() if native else None,
        "cores": _cores(),
        "threads": torch.get_num_threads() if torch else None,
        "memory_gib": _memory_gib(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        if torch and cuda
        else [],
    }


def peak_gib() -> float:
    """Most memory that this process has held so far, in GiB.

    Not `ru_maxrss` on Linux: there it also counts the process that started this one.
    """
    if (held := _of_linux("self/status", "VmHWM")) is not None:
        return held
    import resource  # not on every system

    unit = 1 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def free_gib() -> float | None:
    """Memory that programs may still take, in GiB, where the system says so (Linux)."""
    return _of_linux("meminfo", "MemAvailable")


def _of_linux(file: str, entry: str) -> float | None:
    """GiB of an entry in a file under /proc."""
    path = Path("/proc", file)
    if not path.is_file():
        return None
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines())
    return int(lines[entry].split()[0]) / 2**20


def _by_content(values: Any) -> Any:
    """Everything with a `path` replaced by a hash of what is there.

    `COUNTED` counts too where it is not the default.
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
    """SHA-256 of a file; size and time of change are there to key the cache."""
    return file_hash(Path(path))


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def cpu_name(info: Path) -> str | None:
    """Name, family and model: a virtual machine's processor may be called by its maker alone."""
    first = info.read_text().partition("\n\n")[0] if info.is_file() else ""
    facts = dict(re.findall(r"^([^\t:]+)\s*: (.+)$", first, re.MULTILINE))
    if "model name" not in facts:
        return platform.processor() or None
    numbers = [f"{key.split()[-1]} {facts[key]}" for key in ("cpu family", "model") if key in facts]
    return ", ".join(filter(None, [facts["model name"], " ".join(numbers)]))


def _cores() -> int | None:
    """Cores that this process may use; where that is unknown, those of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None
