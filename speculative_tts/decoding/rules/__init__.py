"""Acceptance rules as pure functions, and their verification."""
