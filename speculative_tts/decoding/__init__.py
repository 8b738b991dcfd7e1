"""Sampling, acceptance and the decoding loops."""
