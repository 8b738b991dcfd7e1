"""Faster autoregressive speech synthesis: speculative decoding, measured in speed and in sound."""

import os

# Read by torch's OpenMP when it is loaded. Its threads would else spin between two operations: with
# more threads than free cores a millisecond of work took a hundred.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Read by onnxruntime when it is imported. It would else write an id of the machine and a data base
# into the user's cache folder, and send what it counts.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
