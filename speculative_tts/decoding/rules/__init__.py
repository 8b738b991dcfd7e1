"""Acceptance rules as pure functions."""
