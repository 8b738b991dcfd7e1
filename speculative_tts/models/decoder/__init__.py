"""The decoder-only transformer: configuration, weights, attention, cache."""
