"""Runs on disk: naming, making, estimating and tuning them."""
