"""Speak lists on which nothing was trained or chosen: new strings and new voice prompts.

`fresh` answers whether figures of the shipped test list hold for sentences and voice prompts that
are not in the repository. On `registered` and on `registered2` claims are judged whose settings
and margins were committed before the list was ever spoken.
"""

from pathlib import Path

from speculative_tts.schema.prepare import Corpus, PrepareConfig
from speculative_tts_makers.corpora.plan import (
    ListedUtterance,
    VoicePrompt,
    Words,
    plan_list,
    plan_takes,
)
from speculative_tts_makers.corpora.testset import write_list

# Of each of 30 speakers; a list takes no string of one before it, so a new one comes last.
ROWS = {Corpus.fresh: 2, Corpus.registered: 8, Corpus.registered2: 8}


def plan_unseen(config: PrepareConfig) -> tuple[list[VoicePrompt], list[ListedUtterance]]:
    """Plan prompts and rows of `config.corpus`, without strings of training or of other lists."""
    taken: set[Words] = set()
    plan_list("test", config.test_rows_per_speaker, config.seed, taken)
    plan_list("dev", config.dev_rows_per_speaker, config.seed, taken)
    spoken = plan_takes(config.n_takes + config.n_fine_takes, (1, 1), config.seed, taken)
    taken |= {take.words for take in spoken}
    lists = {one: plan_list(one.name, rows, config.seed, taken) for one, rows in ROWS.items()}
    return lists[config.corpus]


def write_unseen(config: PrepareConfig, out: Path) -> Path:
    """Speak prompts and recordings into `out`; return the list."""
    return write_list(*plan_unseen(config), out)
