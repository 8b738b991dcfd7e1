"""Sampling, drafts and verification by Triton kernels, for loops on a GPU.

The torch code of `decoding` is their reference: same tokens, distributions equal to 1e-6.
"""
