"""Keep run names stable: a version of the sampling, and the former behaviour of new settings."""

from dataclasses import dataclass
from typing import Any

from speculative_tts.schema.fields import given, said

LAWS = 2
"""Version of the laws: raised when sampling, rules or uniforms give other tokens for a seed.

2: uniforms of 53 bits under keys of 256; sampled paths by logarithms.
"""
OWN_LAWS = {"swap": 3}
"""Versions for systems whose tokens changed alone, by the system's name.

swap 3: a swapped token is never drawn itself.
"""


@dataclass(frozen=True)
class Since:
    """Mark of a later setting: `before` is what runs did that have no such setting.

    A setting with that value is left out of a run's name, so that finished runs keep theirs, and of
    a training's identity, so that one begun before goes on.
    """

    before: Any  # of a list a tuple: a type's marks are hashed

    def says(self, value: Any) -> bool:
        """Return True if a value is the former one."""
        return bool((tuple(value) if isinstance(value, list) else value) == self.before)


def unchanged(config: Any) -> list[str]:
    """Return the dotted keys of later settings that have their former value."""
    later = ((one, said(one.hint, Since)) for one in given(config))
    return [one.key for one, since in later if since and since.says(one.value)]
