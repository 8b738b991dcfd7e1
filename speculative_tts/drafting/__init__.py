"""Drafts: layer inheritance, losses, training."""
