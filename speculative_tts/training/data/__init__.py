"""Provide the sequences that trainings learn from; a batch depends on data, seed and number."""
