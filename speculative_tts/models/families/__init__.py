"""Adapters from each family of speech LM to one interface."""
