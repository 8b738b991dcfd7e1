"""The compiled step: which one this process uses, found in the package or compiled at first use.

One choice for the process, as torch's threads are: models take it when they are loaded.
"""

import ctypes
import functools
import logging
from pathlib import Path

import torch

from speculative_tts.native import compile as compiling
from speculative_tts.native import flags
from speculative_tts.native.compile import CannotCompileError
from speculative_tts.schema.common import Device, DType
from speculative_tts.schema.decode import Kernels, RuntimeConfig

TORCH, BFLOAT16 = "torch", "bf16"
PATTERN = "_native_{}.*"  # beside this file, compiled when the package was installed
logger = logging.getLogger(__name__)
_choice = Kernels.auto


def select(kernels: Kernels) -> None:
    """Say what models compute with from now on, on a CPU those that are loaded from now on.

    Raises ValueError for `native` where it cannot be compiled.
    """
    global _choice  # noqa: PLW0603 - as torch.set_num_threads
    if kernels is Kernels.native:
        try:
            loaded()
        except CannotCompileError as error:
            raise ValueError(
                f"runtime.kernels=native: {error}; or use runtime.kernels=torch"
            ) from error
    _choice = kernels


def chosen() -> Kernels:
    """Return what `select` said last."""
    return _choice


def library() -> ctypes.CDLL | None:
    """Return the native step, or None where torch's kernels are chosen or all there is."""
    if _choice is Kernels.torch:
        return None
    try:
        return loaded()[1]
    except CannotCompileError as error:
        warn_once(str(error))
        return None


def kernel_name() -> str:
    """Name what models compute with on a CPU: `torch`, or `native-` and an instruction set.

    Not whether it has instructions for bfloat16 and 8 bits too, which change no bit.
    """
    return TORCH if library() is None else f"native-{loaded()[0].removesuffix(BFLOAT16)}"


def kernel_label(runtime: RuntimeConfig) -> str:
    """Return what models compute with under these settings, as run names and caches record it.

    That is `cuda`, `torch`, or the native step's instruction set, with the number format where
    inputs of products are rounded to it.
    """
    if runtime.device is not Device.cpu:
        return runtime.device.name
    select(runtime.kernels)
    name = kernel_name()
    rounds = name != TORCH and runtime.dtype is DType.bfloat16
    return f"{name}-{runtime.dtype.name}" if rounds else name


def has_bfloat16() -> bool:
    """Return True if this CPU multiplies in bfloat16; others take longer than in float32."""
    return bool(torch.cpu._is_avx512_bf16_supported())


def instructions() -> str:
    """Return the best instruction set of `flags.FLAGS` on this machine, as torch judges."""
    found = torch.backends.cpu.get_cpu_capability().lower()
    if found == "avx512" and has_bfloat16() and torch.cpu._is_vnni_supported():
        found += BFLOAT16
    return found if found in flags.sets() else "portable"


def load(name: str) -> ctypes.CDLL:
    """Load the library of one instruction set; raise CannotCompileError if it cannot be made."""
    for path in Path(__file__).parent.glob(PATTERN.format(name)):
        found = open_library(path)
        if found is not None:
            return found
    found = open_library(compiling.cached(name))
    if found is None:
        raise CannotCompileError(f"what was compiled in {flags.FOLDER} is not of its sources")
    return found


@functools.cache
def loaded() -> tuple[str, ctypes.CDLL]:
    """Load the best instruction set's library, once a process. Raises CannotCompileError."""
    name = instructions()
    return name, load(name)


@functools.cache
def warn_once(reason: str) -> None:
    """Warn once a process."""
    logger.warning("runtime.kernels=auto computes with torch, several times slower: %s", reason)


def open_library(path: Path) -> ctypes.CDLL | None:
    """Open a library and set its functions' types; return None for one of another source."""
    try:
        found = ctypes.CDLL(str(path))
        found.sst_source.restype = ctypes.c_char_p
    except (OSError, AttributeError):
        return None
    if found.sst_source().decode() != flags.source_hash():
        return None
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    found.sst_panel.argtypes, found.sst_extend.argtypes = [], [pointer, pointer]
    found.sst_product.argtypes = [pointer, pointer, count, pointer, ctypes.c_int32]
    found.sst_large_pages.argtypes = [pointer, count]
    found.sst_trim.argtypes = []
    found.sst_read.argtypes, found.sst_read.restype = [pointer, count], ctypes.c_float
    found.sst_laws.argtypes = [pointer, pointer, pointer]
    found.sst_draw.argtypes = [pointer, count, count, pointer, pointer]
    found.sst_verify.argtypes = [pointer, *[count] * 3, *[pointer] * 8, ctypes.c_int32]
    found.sst_emit.argtypes = [pointer] * 3
    found.sst_walk.argtypes, found.sst_rounds.argtypes = [pointer] * 5, [pointer] * 6
    found.sst_blocks.argtypes = [pointer] * 5
    for same in (found.sst_heads, found.sst_recurrent):
        same.argtypes = [pointer, pointer, count, pointer, ctypes.c_int32]
    for name in ("panel", "extend", "walk", "rounds", "blocks"):
        getattr(found, f"sst_{name}").restype = count
    for name in (
        *("product", "large_pages", "trim", "laws", "draw", "emit", "verify"),
        *("heads", "recurrent"),
    ):
        getattr(found, f"sst_{name}").restype = None
    return found
