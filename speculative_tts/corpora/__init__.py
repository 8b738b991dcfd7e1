"""Prepare corpora: speech, codes and test lists."""
