"""Measure the costs of steps, and estimate from them: lookaheads, hours."""
