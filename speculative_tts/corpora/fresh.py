"""A list on which nothing was trained or chosen: new strings, each speaker from a new prompt.

It answers whether figures of the shipped test list hold for sentences and voice prompts that are
not in the repository.
"""

from pathlib import Path

from speculative_tts.corpora.plan import (
    ListedUtterance,
    VoicePrompt,
    Words,
    plan_list,
    plan_takes,
)
from speculative_tts.corpora.testset import write_list
from speculative_tts.schema.prepare import PrepareConfig

ROWS = 2  # of a speaker: 60 in all


def plan_fresh(config: PrepareConfig) -> tuple[list[VoicePrompt], list[ListedUtterance]]:
    """Prompts and rows whose strings neither training nor the test or dev list has."""
    taken: set[Words] = set()
    plan_list("test", config.test_rows_per_speaker, config.seed, taken)
    plan_list("dev", config.dev_rows_per_speaker, config.seed, taken)
    spoken = plan_takes(config.n_takes + config.n_fine_takes, (1, 1), config.seed, taken)
    taken |= {take.words for take in spoken}
    return plan_list("fresh", ROWS, config.seed, taken)


def write_fresh(config: PrepareConfig, out: Path) -> Path:
    """Speak prompts and recordings into `out`; returns the list."""
    return write_list(*plan_fresh(config), out)
