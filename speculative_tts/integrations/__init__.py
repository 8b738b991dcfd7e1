"""This engine inside the official code of others."""
