"""Decoding loops: one by one, speculative, multi-token; captured, native or observed."""
