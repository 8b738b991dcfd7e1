"""Measure the engine's speed: steps, continuations, other engines, real sizes, a GPU."""
