"""Corpora: speech, codes and test lists."""
