"""Let one choice imply others: a target brings its codec and its draft, unless told otherwise.

An implied choice is a pair (trigger, choice), such as ("target=tiny_fine", "codec=tiny_fine"). The
trigger is a choice, or a key: then any setting that begins with it.
"""

from collections.abc import Iterable, Sequence

Choices = tuple[tuple[str, str], ...]

CHOOSERS = ("method", "experiment")  # groups whose files choose within other groups
CODEC_OF_TARGET = (
    ("target=tiny", "codec=tiny"),
    ("target=tiny_valle", "codec=tiny_residual"),
    ("target=tiny_fine", "codec=tiny_fine"),
    ("target=sentences", "codec=sentences"),
    ("target=csm", "codec=mimi"),
    ("target=orpheus", "codec=snac"),
    ("target=maya1", "codec=snac"),
    ("target=veena", "codec=snac"),
    ("target=spark", "codec=spark_codes"),
    ("target=soprano", "codec=soprano_codes"),
)
DATA_OF_TARGET = (  # whose texts and voices a target knows
    ("target=sentences", "data=sentences"),
    ("target=tiny", "data=tiny"),
    ("target=tiny_fine", "data=tiny"),
    ("target=tiny_valle", "data=tiny"),
)
DRAFT_OF_TARGET = (
    ("target=tiny", "draft=tiny"),
    ("target=tiny_fine", "draft=paper"),
    ("target=sentences", "draft=sentences"),
)
DRAFTER_OF_TARGET = (  # a given draft, else a recurrent layer if one ships
    ("draft", "drafter=lm"),
    ("target=tiny", "drafter=recurrent"),
    ("target=tiny_fine", "drafter=recurrent"),
    ("target=sentences", "drafter=recurrent"),
    ("target=csm", "drafter=codebooks"),
    ("target", "drafter=lm"),
)
WITHOUT_DRAFT = (("target", "draft=itself"),)  # a target without a draft of its own
LOGS_BESIDE_RUNS = (("hydra/launcher", "hydra.sweep.dir=${out}/.sweep"),)  # of clusters


def implied(overrides: Sequence[str], choices: Iterable[tuple[str, str]]) -> list[str]:
    """Return the choices that `overrides` trigger: the first per group that has no choice yet."""
    given = {override.partition("=")[0].lstrip("+") for override in overrides}
    found: dict[str, str] = {}
    for asking, choice in choices:
        group = choice.partition("=")[0]
        if "=" in asking:
            asked, choosers = asking in overrides, {group, f"{group}.name"}
        else:
            asked = any(key == asking or key.startswith(f"{asking}.") for key in given)
            others = () if group.startswith("hydra.") else CHOOSERS
            choosers = {group, f"{group}.name", f"{group}.path", *others}
        if asked and not given & (choosers - {asking}):
            found.setdefault(group, choice)
    return list(found.values())
