"""What a process keeps for all that it computes, as if a test were the first to ask for it."""

import sys

import torch


def renew() -> None:
    """Forget Accelerate's precision and devices, and the threads that a training set."""
    torch.set_num_threads(1)
    if "accelerate.state" in sys.modules:
        sys.modules["accelerate.state"].AcceleratorState._reset_state(True)
