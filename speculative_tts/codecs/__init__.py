"""Codecs: speech codes to audio, prompts to codes."""
