"""Triton kernels; `decoding.gpu.launch` imports them where they run."""
