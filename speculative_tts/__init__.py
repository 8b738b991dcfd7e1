"""Faster autoregressive speech synthesis: speculative decoding, measured in speed and in sound."""

import os

# torch's OpenMP reads this when it is loaded. Otherwise its threads spin between two operations:
# with more threads than free cores a millisecond of work took a hundred.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# onnxruntime reads this when it is imported. Otherwise it writes an id of the machine and a
# database into the user's cache folder, and sends usage counts.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
