"""What names of runs hold beside settings: the laws, and what a later setting was before."""

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
    """Of a setting that came after these laws: what runs before it did, which have no such setting.

    While it has that value it does not count for a run's name, so finished runs keep theirs; nor
    for what a training is, so that one begun before goes on.
    """

    before: Any


def unchanged(config: Any) -> list[str]:
    """Settings of a later time, dotted, that are what they were before there was such a setting."""
    later = ((one, said(one.hint, Since)) for one in given(config))
    return [one.key for one, since in later if since and one.value == since.before]
