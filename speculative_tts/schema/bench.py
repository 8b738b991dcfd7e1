"""Settings of sst-bench."""

from dataclasses import dataclass, field
from typing import Annotated

from speculative_tts.schema.decode import EngineConfig
from speculative_tts.schema.drafters import RecurrentDrafterConfig
from speculative_tts.schema.fields import Count, Draws, Limit, Several, WrittenPath


@dataclass
class BenchConfig(EngineConfig):
    """sst-bench: engine speed on the same weights beside transformers', and each step's cost."""

    # a layer that drafts in the second model's place, if it is there
    recurrent: RecurrentDrafterConfig = field(default_factory=RecurrentDrafterConfig)
    limit: Count = 10  # utterances of the list whose prompts are continued
    tokens: Several = 100  # speech tokens of each continuation; stop ids do not end it
    transformers: bool = True  # also time transformers' generate and assisted generation
    processes: Count = 1  # that time in turn, on a CPU; 5 give an interval over them too
    steps: Count = 200  # repeats of each single step that is timed; the median counts
    draws: Draws = 10_000  # bootstrap draws of the speed ratios
    # how long so many clients at once wait (streams=1,4,16), each of whom asks for the next
    # utterance when it has all audio of its last one; null: none of this
    streams: Annotated[int, Limit(1, 1024)] | None = None
    # cosyvoice2, llasa_1b or llasa_8b: real size, random weights, instead of target, draft and list
    random: str | None = None
    # real sizes with CUDA graphs and without, batches, parity; needs a GPU
    gpu: bool = False
    out: WrittenPath = "runs/bench"  # a table for people and JSON for programs go here
