"""Structured configurations of every command: what stages share in `common`, then a module a stage.

Each command's YAML names its schema first, so a typo or a wrong type fails before any work starts.
A `DictConfig` never travels past a command: `commands.app` turns it into these dataclasses. Paths
that begin with `tiny:` (`tiny:target`, what ships) or `~` have their real place from then on
(`commands.composing.to_object`); files that say what was configured name them as `tiny:target`.
"""
