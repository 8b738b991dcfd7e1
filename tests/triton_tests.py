"""Where tests run Triton's kernels: on a GPU if there is one, else in Triton's interpreter.

Import this before anything that imports Triton: it reads TRITON_INTERPRET when a kernel is defined.
The interpreter computes bfloat16 wrongly: off a GPU, kernels are compared in float32, and rounded
inputs stand for bfloat16's.
"""

import importlib.util
import os

import pytest
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if DEVICE.type == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="Triton is not installed; pip install -e .[triton]",
)
