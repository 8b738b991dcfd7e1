"""Speak the corpora of the systems that ship, and make their codecs, codes and lists."""
