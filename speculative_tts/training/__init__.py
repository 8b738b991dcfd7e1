"""Training of targets, drafts, heads and the tiny VALL-E."""
