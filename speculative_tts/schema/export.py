"""Settings of sst-export."""

from dataclasses import dataclass, field

from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.fields import Few, ReadPath, Words, WrittenPath


@dataclass
class ExportConfig:
    """sst-export: a draft for transformers and vLLM, or a recurrent layer for transformers."""

    target: CheckpointConfig = field(default_factory=CheckpointConfig)
    # or draft.path=<folder of a recurrent layer>, which its target's embedding and head go with
    draft: CheckpointConfig = field(default_factory=CheckpointConfig)
    # scored runs of this draft, whose figures the card has; null: nothing is measured
    runs: ReadPath | None = None
    lookahead: Few = 3  # tokens a round that the other libraries are told to draft
    licence: Words | None = None  # of the weights, as a hub names it: apache-2.0
    verifier: Words | None = None  # what the target is called there; null: target.name
    out: WrittenPath = "runs/export"  # the folder
