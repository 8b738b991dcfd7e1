"""Judges, one metric a file, and their aggregation."""
