"""Faster autoregressive speech synthesis: speculative decoding, measured in speed and in sound."""
