"""Structured configurations of every command: what stages share in `common`, then a module a stage.

Each command's YAML names its schema first, so a typo or a wrong type fails before any work starts.
A `DictConfig` never travels past a command: `commands.app` turns it into these dataclasses. Paths
may start with `tiny:` for the shipped tiny assets (`tiny:target`), see `assets.resolve`.
"""
