"""What names of runs hold beside settings: the laws, and what a later setting was before."""

from dataclasses import dataclass
from typing import Any

LAWS = 2
"""Version of the laws: raised when sampling, rules or uniforms give other tokens for a seed.

2: uniforms of 53 bits under keys of 256; sampled paths by logarithms.
"""


@dataclass(frozen=True)
class Since:
    """Of a setting that came after these laws: what runs before it did, which have no such setting.

    While it has that value it does not count for a run's name, so finished runs keep theirs.
    """

    before: Any
