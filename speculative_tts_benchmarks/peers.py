"""Time llama.cpp and OpenVINO beside the engine, on the same random weights.

    python -m speculative_tts_benchmarks.peers random=cosyvoice2 limit=3 tokens=50

Takes the settings of `sst-bench`. A peer that is not installed (extra `peers`) is named and left
out.
"""

import sys
from importlib.util import find_spec

from speculative_tts.commands.bench import main
from speculative_tts_benchmarks.other_engines import PEERS, Making
from speculative_tts_benchmarks.peer_llama_cpp import LlamaCpp
from speculative_tts_benchmarks.peer_openvino import OpenVino

KNOWN: dict[str, tuple[str, Making]] = {
    "llama.cpp": ("llama_cpp", LlamaCpp),
    "OpenVINO": ("openvino", lambda weights, dtype, _, threads: OpenVino(weights, dtype, threads)),
}


def add_installed() -> None:
    """Register the peers whose modules are installed; say how to get the others."""
    for name, (module, make) in KNOWN.items():
        if find_spec(module) is None:
            remedy = "pip install 'speculative_tts[peers]'"
            print(f"{name} is not installed and left out: {remedy}", file=sys.stderr)
        else:
            PEERS[name] = make


if __name__ == "__main__":
    add_installed()
    sys.exit(main())
