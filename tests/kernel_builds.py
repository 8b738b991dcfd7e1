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
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import round_builds

PACKAGE, ROUNDS = "speculative_tts.models.gpu.kernels", round_builds.PACKAGE
B, F, N = "*bf16", "*fp32", "*i64"
PRODUCT = {"x": B, "w": B, "bias": B, "addend": B, "out": B, "floor2": "fp32"}
FUSED = {"NORM": True, "BIAS": True, "ADD": False, "SILU": False}
ATTENTION = {
    "fused": B, "keys": B, "values": B, "turns": F, "gains": F, "start": N, "out": B, "parts": F,
    "peaks": F, "tickets": "*i32", "floor2": "fp32",
}  # fmt: skip
QWEN = {"HEADS": 14, "KV": 2, "D": 64, "DB": 64}  # CosyVoice 2
LLAMA = {"HEADS": 32, "KV": 8, "D": 128, "DB": 128}  # LLaSA-8B
QWEN3 = {"HEADS": 16, "KV": 8, "D": 128, "DB": 128}  # Qwen3-0.6B and 1.7B
PART = {"KB": 64, "SPLITS": 8}
BUILDS: dict[str, round_builds.Build] = {
    "gemv": ("product.gemv_kernel", PRODUCT,
             {"M": 1, "MB": 1, "BN": 2, "B1": 512, "B2": 512, **FUSED, "GATED": True}, 2),
    "gemv, long": ("product.gemv_kernel", PRODUCT,
                   {"M": 4, "MB": 4, "BN": 2, "B1": 4096, "B2": 1024, **FUSED, "GATED": False}, 4),
    "rows": ("product.rows_kernel", PRODUCT,
             {"BN": 16, "BK": 128, "MB": 16, "EVEN": True, **FUSED, "GATED": True,
              "STAGES": 6, "LINES": 8}, 1),
    "held": ("product.held_kernel", PRODUCT,
             {"BN": 16, "BK": 64, "MB": 8, "SHARES": 2, "STEPS": 7, "EVEN": True, **FUSED,
              "GATED": True}, 2),
    "attention": ("attention.attention_kernel", ATTENTION,
                  {**QWEN, "QB": 16, "NB": 16, **PART, "NORM": False}, 4),
    "attention, many": ("attention.attention_kernel", ATTENTION,
                        {**LLAMA, "QB": 16, "NB": 16, **PART, "NORM": False}, 4),
    "attention, normed": ("attention.attention_kernel", ATTENTION,
                          {**QWEN3, "QB": 16, "NB": 16, **PART, "NORM": True}, 4),
    "norm": ("norm.norm_kernel", {"x": B, "addend": B, "gain": B, "total": B, "out": B,
             "floor2": "fp32"}, {"KB": 1024, "ADD": True, "GAIN": True}, 4),
    "gate": ("norm.gate_kernel", {"wide": B, "out": B}, {"B": 1024}, 4),
    "gather": ("norm.gather_kernel", {"ids": N, "table": B, "out": B}, {"B": 1024}, 4),
    "join": ("norm.join_kernel", {"states": B, "inputs": B, "out": B}, {"B": 1024}, 4),
    "spread": ("norm.spread_kernel", {"few": F, "places": "*i32", "out": F}, {"B": 1024}, 4),
    "rotate": ("attention.rotate_kernel", {**ATTENTION, "rows": N},
               {**QWEN3, "HB": 32, "NORM": True}, 4),
    "rows, silu": ("product.rows_kernel", PRODUCT,
                   {"BN": 16, "BK": 128, "MB": 16, "EVEN": True, **FUSED, "SILU": True,
                    "GATED": False, "STAGES": 4, "LINES": 8}, 2),
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
    names = function.arg_names
    early = capability >= 90 and "PDL" in names
    constants = constants | ({"PDL": int(early)} if "PDL" in names else {})
    signature = {n: "constexpr" if n in constants else types.get(n, "i32") for n in names}
    aligned = {  # as launches of torch's tensors are
        (i,): [["tt.divisibility", 16]]
        for i, n in enumerate(names)
        if signature[n].startswith("*") or n in ("K", "CAPACITY")
    }
    source = ASTSource(
        fn=function, signature=signature, attrs=aligned,
        constexprs={(names.index(n),): value for n, value in constants.items()},
    )  # fmt: skip
    options = {"num_warps": warps} | ({"launch_pdl": True} if early else {})
    result = build(source, target=GPUTarget("cuda", capability, 32), options=options)
    return {"name": name, **usage(result.asm["cubin"]), **order(result.asm["ptx"]),
            "shared": result.metadata.shared, "threads": 32 * warps}  # fmt: skip


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
