"""Sequences that trainings learn from; a batch is a function of data, seed and number."""
