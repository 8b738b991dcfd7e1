"""Judges, one per file; each imports its libraries when it is loaded, and downloads nothing."""
