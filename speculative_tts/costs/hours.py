"""Estimate GPU hours of the papers' experiments from a probe, or from given pass times.

The probe times decode steps of one and of four layers of each target's size (random weights, this
package's engine), a head and a sampler, of one row and of a batch; the rest is counting. A run
decodes its timed utterances one by one and twice, by itself and by the target alone, the others
once in batches, and is taken to need as many passes as the target alone. `LEFT_OUT` is not in it,
nor what a loop does between the steps.
"""

from dataclasses import dataclass, replace

import torch

from speculative_tts.costs.layers import random_decoder
from speculative_tts.costs.timer import median_seconds
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.matrix import matrix
from speculative_tts.schema.decode import DecodeConfig
from speculative_tts.schema.evaluate import Paper

PROBED = (1, 4)  # layers
REPEATS, CONTEXT = 20, 256
BATCH = 32  # utterances of a batch
TIMED = DecodeConfig().timing or 0
LEFT_OUT = (
    "uncached baselines, where they are timed, searches for a speed (match=), codes of the "
    "corpora, training of drafts and heads, groups, flow, vocoders and codecs, judges"
)
SECONDS = 6.5  # about the mean utterance of LibriTTS test-clean


@dataclass(frozen=True)
class Job:
    """The experiments of one paper: the target's shape, and the amount to decode."""

    paper: Paper
    shape: DecoderConfig
    head: int  # rows
    token_rate: float
    runs: int  # of a cached language model, in all experiments
    utterances: int

    @property
    def tokens(self) -> float:
        """Speech tokens per utterance."""
        return SECONDS * self.token_rate

    @property
    def alone(self) -> float:
        """Passes of one row in all runs: timed utterances, by system and by target alone."""
        return 2 * self.runs * TIMED * self.tokens

    @property
    def together(self) -> float:
        """Passes of `BATCH` rows in all runs."""
        return self.runs * (self.utterances - TIMED) * self.tokens / BATCH


QWEN = DecoderConfig(
    layers=24,
    hidden=896,
    heads=14,
    kv_heads=2,
    head_dim=64,
    intermediate=4_864,
    vocab_size=6_564,
    norm_eps=1e-6,
    rope_theta=1e6,
    max_positions=4_096,
)
_LLAMA_8B = replace(
    QWEN, layers=32, hidden=4_096, heads=32, kv_heads=8, head_dim=128, intermediate=14_336
)
_VALLE = replace(
    QWEN, layers=12, hidden=1_024, heads=16, kv_heads=16, head_dim=64, intermediate=2_730
)  # VALL-E's own layers have two matrices of 4,096; the bytes of a step are the same
JOBS = (
    Job(Paper.ssd, QWEN, 6_564, 25.0, runs=4 + 5 + 16, utterances=499),
    Job(Paper.pcg, _LLAMA_8B, 65_537, 50.0, runs=9 + 12 + 15 + 6 + 72 + 12, utterances=500),
    Job(Paper.mtp, _VALLE, 1_025, 50.0, runs=7 + 7 + 18 + 24 + 2, utterances=4_837),
)


@dataclass(frozen=True)
class Estimate:
    """Milliseconds of a pass of one row and of a batch, and hours of a paper's experiments."""

    paper: Paper
    milliseconds: tuple[float, float]
    hours: float


def counted(job: Job, alone: float, together: float) -> Estimate:
    """Compute the hours from milliseconds of a pass of one row and of a batch."""
    hours = (alone * job.alone + together * job.together) / 3.6e6
    return Estimate(job.paper, (alone, together), hours)


def estimate(job: Job, device: torch.device, dtype: torch.dtype) -> Estimate:
    """Time one target's passes and compute the hours."""
    return counted(job, *(1e3 * pass_seconds(job, rows, device, dtype) for rows in (1, BATCH)))


def pass_seconds(job: Job, rows: int, device: torch.device, dtype: torch.dtype) -> float:
    """Return the seconds of a whole step of the target: layers, head and sampler."""
    few, many = (step_seconds(job.shape, n, rows, device, dtype) for n in PROBED)
    layer = max(many - few, 0.0) / (PROBED[1] - PROBED[0])
    step = few + layer * (job.shape.layers - PROBED[0])
    return step + head_seconds(job, rows, device, dtype) + sampler_seconds(job, rows, device)


@torch.inference_mode()
def step_seconds(
    shape: DecoderConfig, layers: int, rows: int, device: torch.device, dtype: torch.dtype
) -> float:
    """Time one decode step of some layers after `CONTEXT` positions; median seconds."""
    generator = torch.Generator().manual_seed(0)
    decoder = random_decoder(shape, [1.0] * layers, generator, dtype=dtype, device=device)
    cache = decoder.cache(rows, CONTEXT + 1)
    token = torch.randn(rows, 1, shape.hidden, dtype=dtype, device=device)
    start = torch.full((rows,), CONTEXT, device=device)
    return median_seconds(lambda: decoder.extend(token, cache, start), REPEATS)


@torch.inference_mode()
def head_seconds(job: Job, rows: int, device: torch.device, dtype: torch.dtype) -> float:
    """Time one product with the output head; median seconds."""
    head = matrix(torch.randn(job.shape.hidden, job.head, dtype=dtype, device=device))
    token = torch.randn(rows, job.shape.hidden, dtype=dtype, device=device)
    return median_seconds(lambda: head(token), REPEATS)


@torch.inference_mode()
def sampler_seconds(job: Job, rows: int, device: torch.device) -> float:
    """Time one sampling distribution (temperature, top 50); median seconds."""
    sampler = Sampler(temperature=0.8, top_k=50)
    logits = torch.randn(rows, 1, job.head, device=device)
    nothing = torch.zeros(rows, 1, dtype=torch.int64, device=device)
    stop = StopRule.build((job.head - 1,), job.head, [0] * rows, device)
    return median_seconds(lambda: sampler(logits, nothing, nothing, stop), REPEATS)
