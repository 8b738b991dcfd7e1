"""Training of the tiny target."""
