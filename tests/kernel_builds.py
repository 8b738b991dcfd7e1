"""Compile Triton's kernels for GPUs that are not there: `python kernel_builds.py sm_90 NAME ...`.

All that are listed here, kernels of a step, and in `round_builds`. NAME=FILE takes a kernel from
that file instead, in which a fault may be planted. Prints one JSON object a kernel: registers,
bytes of stack a thread (spills), shared memory, and what its PTX loads and stores before it waits
for the kernel before it, and after. Without the interpreter, so in a process of its own: `compiled`
starts one. What was compiled before is in Triton's cache (~/.triton).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import round_builds

from speculative_tts.models.gpu.arguments import (
    AttentionConstants,
    GemvConstants,
    HeadConstants,
    HeldConstants,
    ProductFlags,
    RowsConstants,
)

ALIGNED = ("K", "capacity")  # numbers that 16 divides
PACKAGE, ROUNDS = "speculative_tts.models.gpu.kernels", round_builds.PACKAGE
B, F, N = "*bf16", "*fp32", "*i64"
PRODUCT = {"x": B, "w": B, "bias": B, "addend": None, "out": B, "floor2": "fp32"}
PLAIN, GATED, SILU = (
    {"FLAGS": ProductFlags(silu, gated, pdl=0)}
    for silu, gated in ((False, False), (False, True), (True, False))
)
ATTENTION = {
    "fused": B, "past_keys": B, "past_values": B, "turns": F, "gains": None, "start": N, "out": B,
    "parts": F, "peaks": F, "tickets": "*i32", "floor2": "fp32",
}  # fmt: skip
NORMED = ATTENTION | {"gains": F}
QWEN, LLAMA, QWEN3 = (  # CosyVoice 2; LLaSA-8B; Qwen3-0.6B and 1.7B
    HeadConstants(heads, kv, d, d) for heads, kv, d in ((14, 2, 64), (32, 8, 128), (16, 8, 128))
)
PART = {"qb": 16, "nb": 16, "kb": 64, "splits": 8, "pdl": False}
BUILDS: dict[str, round_builds.Build] = {
    "gemv": ("product.gemv_kernel", PRODUCT,
             {"TILE": GemvConstants(1, 1, 2, 512, 512), **GATED}, 2),
    "gemv, long": ("product.gemv_kernel", PRODUCT,
                   {"TILE": GemvConstants(4, 4, 2, 4096, 1024), **PLAIN}, 4),
    "rows": ("product.rows_kernel", PRODUCT,
             {"TILE": RowsConstants(16, 128, 16, even=True, stages=6, lines=8), **GATED}, 1),
    "held": ("product.held_kernel", PRODUCT,
             {"TILE": HeldConstants(16, 64, 8, 2, 7, even=True), **GATED}, 2),
    "attention": ("attention.attention_kernel", ATTENTION,
                  {"SHAPE": AttentionConstants(*QWEN, **PART)}, 4),
    "attention, many": ("attention.attention_kernel", ATTENTION,
                        {"SHAPE": AttentionConstants(*LLAMA, **PART)}, 4),
    "attention, normed": ("attention.attention_kernel", NORMED,
                          {"SHAPE": AttentionConstants(*QWEN3, **PART)}, 4),
    "norm": ("norm.norm_kernel", {"x": B, "addend": B, "gain": B, "total": B, "out": B,
             "floor2": "fp32"}, {"KB": 1024}, 4),
    "gate": ("norm.gate_kernel", {"wide": B, "out": B}, {"B": 1024}, 4),
    "gather": ("norm.gather_kernel", {"ids": N, "table": B, "out": B}, {"B": 1024}, 4),
    "join": ("norm.join_kernel", {"states": B, "inputs": B, "out": B}, {"B": 1024}, 4),
    "spread": ("norm.spread_kernel", {"few": F, "places": "*i32", "out": F}, {"B": 1024}, 4),
    "rotate": ("attention.rotate_kernel", {**NORMED, "rows": N},
               {"SHAPE": QWEN3, "HB": 32}, 4),
    "rows, silu": ("product.rows_kernel", PRODUCT,
                   {"TILE": RowsConstants(16, 128, 16, even=True, stages=4, lines=8), **SILU}, 2),
}  # fmt: skip


def compiled(target: str, *asked: str) -> list[dict[str, Any]]:
    """Compile kernels for an architecture such as sm_90, all unless some are asked for."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, __file__, target, *asked]
    made = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert made.returncode == 0, made.stderr
    return [json.loads(line) for line in made.stdout.splitlines()]


def built(name: str, capability: int, file: str = "") -> dict[str, Any]:
    """Compile one kernel, of a file if one is given, for a capability such as 90."""
    from triton import compile as build
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    table, package = (BUILDS, PACKAGE) if name in BUILDS else (round_builds.BUILDS, ROUNDS)
    place, types, constants, warps = table[name]
    module, kernel = place.split(".")
    function = getattr(
        module_at(Path(file)) if file else import_module(f"{package}.{module}"), kernel
    )
    early = capability >= 90 and waits(function)
    constants = {"PDL": int(early)} | {
        n: one._replace(pdl=int(early)) if "pdl" in getattr(one, "_fields", ()) else one
        for n, one in constants.items()
    }
    signature, names = typed(function, types | dict.fromkeys(constants, "constexpr"))
    source = ASTSource(
        fn=function, signature=signature,
        attrs={  # as launches of torch's tensors are
            place: [["tt.divisibility", 16]]
            for place, (name, kind) in names.items()
            if kind.startswith("*") or (package == PACKAGE and name in ALIGNED)
        },
        constexprs={
            place: constants.get(name) for place, (name, kind) in names.items()
            if kind == "constexpr"
        },
    )  # fmt: skip
    options = {"num_warps": warps} | ({"launch_pdl": True} if early else {})
    result = build(source, target=GPUTarget("cuda", capability, 32), options=options)
    return {"name": name, **usage(result.asm["cubin"]), **order(result.asm["ptx"]),
            "shared": result.metadata.shared, "threads": 32 * warps}  # fmt: skip


Typed = tuple[dict[str, Any], dict[tuple[int, ...], tuple[str, str]]]


def typed(function: Any, types: Mapping[str, str | None]) -> Typed:
    """Return a kernel's signature, and name and type of each number by its place.

    A named tuple's fields have types by their names; others are i32, those that are None constants.
    """
    signature: dict[str, Any] = {}
    places: dict[tuple[int, ...], tuple[str, str]] = {}
    for i, name in enumerate(function.arg_names):
        kind = function.fn.__annotations__.get(name)
        fields = [] if types.get(name, "") in (None, "constexpr") else getattr(kind, "_fields", [])
        named = {(i, j): field for j, field in enumerate(fields)} or {(i,): name}
        places |= {at: (n, types.get(n, "i32") or "constexpr") for at, n in named.items()}
        own = [places[at][1] for at in named]
        signature[name] = kind(*own) if fields and kind is not None else own[0]
    return signature, places


def waits(function: Any) -> bool:
    """Return whether a kernel may start before the one before it has ended."""
    return "gdc_wait" in function.src or "_ordered(" in function.src


def module_at(file: Path) -> ModuleType:
    """Import a module from a file."""
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def usage(binary: bytes) -> dict[str, int]:
    """Return registers and bytes of stack a thread."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        text = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    assert found, text
    return {"registers": int(found[1]), "stack": int(found[2])}


def order(ptx: str) -> dict[str, Any]:
    """Return global loads and stores before and after the wait, and where dependents may start."""
    kinds = {"load": r"ld\.global|cp\.async\.c", "store": r"st\.global", "atomic": r"atom\.",
             "wait": r"griddepcontrol\.wait", "launch": r"griddepcontrol\.launch"}  # fmt: skip
    seen = [
        kind for line in ptx.splitlines() for kind, how in kinds.items() if re.search(how, line)
    ]
    wait = seen.index("wait") if "wait" in seen else 0
    return {"before": seen[:wait], "after": seen[wait + 1 :], "waits": seen.count("wait")}


if __name__ == "__main__":
    for asked in sys.argv[2:] or [*BUILDS, *round_builds.BUILDS]:
        wanted, _, place = asked.partition("=")
        print(json.dumps(built(wanted, int(sys.argv[1].removeprefix("sm_")), place)), flush=True)
