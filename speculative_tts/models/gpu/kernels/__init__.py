"""Kernels in Triton; importing a module of these imports Triton."""
