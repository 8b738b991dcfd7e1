"""Samplers as next-token distributions, and keyed uniform numbers."""
