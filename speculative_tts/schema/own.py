"""Settings of sst-own-codes."""

from dataclasses import dataclass, field
from typing import Annotated

from speculative_tts.schema.common import CheckpointConfig, CodecConfig
from speculative_tts.schema.decode import RuntimeConfig, SamplingConfig
from speculative_tts.schema.fields import Count, Positive, ReadPath, Seed, Since, Whole, WrittenPath


@dataclass
class OwnCodesConfig:
    """sst-own-codes: training texts as the target says them."""

    target: CheckpointConfig = field(default_factory=CheckpointConfig)
    codec: CodecConfig = field(default_factory=CodecConfig)  # the target's tokenizer
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    codes: ReadPath = "data/tiny/codes"  # Parquet shards written by sst-prepare
    limit: Count | None = None  # utterances of each shard, the first ones; null: all
    # say as many of them as fit into so many minutes, by timing the first ones; a killed run keeps
    # their number; null: all of them
    minutes: Annotated[Positive | None, Since(None)] = None
    # recordings of more codes are left out, as texts and as voice prompts; null: none
    longest: Annotated[Count | None, Since(None)] = None
    job: Whole = 0  # this process makes shards job, job + jobs, ...: job=0,1,2,3 jobs=4
    jobs: Count = 1  # over how many processes or machines the shards are spread
    seed: Seed = 0  # of voice prompts and tokens
    # likeliest tokens of each distribution, kept too for sst-train-draft laws=true; of 32 a code
    # takes 110 bytes, the prompt's included (13 KB an utterance of the tiny targets); null: none
    laws: Count | None = None
    out: WrittenPath = "runs/own_codes"  # own= of sst-train-draft and sst-train-heads
