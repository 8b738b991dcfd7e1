"""Sources of a run's audio: an engine, recordings, swapped codes."""
