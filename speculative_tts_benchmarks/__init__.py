"""Time models of real size with random weights, on CPUs and GPUs, and engines of others.

The commands alone import this package.
"""
